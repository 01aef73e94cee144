"""The worker's models made ready: inputs of one call, what one timed iteration is, and what its outputs mean."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import nn

from proveout.app.spans import Calibration, Read, best_answer
from proveout.app.tasks import TASKS, Task, TaskRequest
from proveout.app.weights import Loaded, load, score_of
from proveout.clock.pacing import clock
from proveout.errors import UsageError
from proveout.generation.cached import Cached, prompt_call, token_call

SIDE = 32
Call = Callable[..., Any]
Tell = Callable[[dict[str, Any]], None]
"""Takes the task's output so far, as the page shows it."""


@dataclass(frozen=True)
class Prepared:
    """A model with the inputs of its (first) call. `iterate` does one iteration with the callable that it is given,
    compiled or not, and returns what the page shows."""

    model: nn.Module
    inputs: dict[str, Any]
    iterate: Callable[[Call, Tell], dict[str, Any]]
    tokens: int = 0
    """That one iteration counts for: the sequence's length, or the new ones of a generation."""
    more: tuple[dict[str, Any], ...] = ()
    """Other calls that an iteration makes, on inputs of other shapes."""


def prepare(request: TaskRequest) -> Prepared:
    """Load what a TaskRequest asks for and make its inputs."""
    task = TASKS[request.task]
    loaded = load(task, request.source, request.weights, request.settings.seed)
    return _PREPARE[task.kind](task, request, loaded)


# ------------------------------------------------------------------------------------------------ question answering


def _answer(task: Task, request: TaskRequest, loaded: Loaded) -> Prepared:
    task_inputs = request.inputs
    length = _checked_length(loaded.model, task_inputs.length, 0)
    encoded = loaded.tokenizer(
        task_inputs.question,
        task_inputs.context,
        max_length=length,
        padding="max_length",
        truncation="only_second",
        return_offsets_mapping=True,
        return_tensors="pt",
    )
    offsets = encoded.pop("offset_mapping")[0].tolist()
    in_context = [part == 1 for part in encoded.sequence_ids(0)]
    inputs, calibration = dict(encoded), _calibration(loaded.folder)
    read = max((end for (_, end), ok in zip(offsets, in_context) if ok), default=0)

    def iterate(call: Call, tell: Tell) -> dict[str, Any]:
        outputs = call(**inputs)
        logits = outputs.start_logits[0], outputs.end_logits[0]
        answer = best_answer(Read(task_inputs.context, task_inputs.question, *logits, offsets, in_context), calibration)
        # How much of the passage the model was given: what is cut is said.
        facts = {"span": answer.span, "guess": answer.guess, "none": answer.says_none}
        return {**facts, "score": answer.confidence, "read": read}

    return Prepared(loaded.model, inputs, iterate, length)


def _calibration(folder: Path | None) -> Calibration:
    """What was found for these weights; for others, an answer is given where it is likelier than not."""
    score = score_of(folder) if folder is not None else {}
    usual, added = Calibration(), score.get("evidence", {})
    named = {f.name: score[f.name] for f in fields(Calibration) if f.name in score and f.name != "evidence"}
    numbers = [*named.values(), *(added.values() if isinstance(added, dict) else [None])]
    good = all(isinstance(value, (int, float)) and isfinite(value) for value in numbers)
    found = replace(usual, **named, evidence=added) if good else usual
    return found if found.temperature > 0 and found.threshold > 0 else usual


# -------------------------------------------------------------------------------------------------------- generation


def _generate(task: Task, request: TaskRequest, loaded: Loaded) -> Prepared:
    """Two Programs on one cache: the prompt once, then one call a token."""
    inputs, tokenizer = request.inputs, loaded.tokenizer
    new = inputs.new_tokens
    length = _checked_length(loaded.model, inputs.length, new)
    prompt = tokenizer(inputs.prompt)["input_ids"][-length:]
    if not prompt:
        raise UsageError("the prompt is empty: enter a few words.")
    known = len(tokenizer)

    def text_of(tokens: list[int]) -> str:
        if all(token < known for token in tokens):
            return str(tokenizer.decode(tokens))
        return " ".join(tokenizer.decode([t]) if t < known else f"⟨{t}⟩" for t in tokens)

    start = text_of(prompt)
    first_call = prompt_call(prompt, _positions(loaded.model))
    model = Cached(loaded.model, max(first_call["ids"].shape[1], len(prompt) + new)).eval()

    def iterate(call: Call, tell: Tell) -> dict[str, Any]:
        began, stamps = clock(), []
        tokens = [int(call(**first_call)[0].argmax())]
        first_modelled = getattr(call, "modelled_ns", None)
        for position in range(len(prompt), len(prompt) + new - 1):
            stamps.append(clock())
            tell({"prompt": start, "text": text_of(tokens)})
            tokens.append(int(call(**token_call(tokens[-1], position))[0].argmax()))
        stamps.append(clock())
        return {
            "prompt": start,
            "text": text_of(tokens),
            "first_token_ns": stamps[0] - began,
            "rest_ns": stamps[-1] - stamps[0],
            "first_modelled_ns": first_modelled,
        }

    more = (token_call(prompt[-1], len(prompt)),) if new > 1 else ()
    return Prepared(model, first_call, iterate, new, more)


def _positions(model: nn.Module) -> int:
    config: Any = model.config
    return int(getattr(config, "n_positions", None) or config.max_position_embeddings)


def _checked_length(model: nn.Module, length: int, more: int) -> int:
    most = _positions(model)
    if not 1 <= length <= most - more:
        extra = f" and {more} new ones" if more else ""
        raise UsageError(f"{length} tokens{extra} do not fit: this model takes 1 to {most} in all.")
    return length


# ------------------------------------------------------------------------------------------------------------ images


def _classify(task: Task, request: TaskRequest, loaded: Loaded) -> Prepared:
    image = pixels_of(request.inputs.image)
    labels = [str(n) for n in range(10)]
    name, digits = "image", task.path == "digits"
    if not digits:
        mean, deviation = _normalisation(loaded.folder, request.source == "pretrained")
        image = (image - torch.tensor(mean)[:, None, None]) / torch.tensor(deviation)[:, None, None]
        config: Any = loaded.model.config
        labels = [str(config.id2label[n]) for n in range(config.num_labels)]
        name = "pixel_values"
    inputs = {name: image[None].contiguous()}

    def iterate(call: Call, tell: Tell) -> dict[str, Any]:
        outputs = call(**inputs)
        logits = (outputs if digits else outputs.logits)[0].float()
        chances = logits.softmax(0)
        top = chances.topk(min(10, len(chances)))
        order = list(range(10)) if digits else top.indices.tolist()
        return {
            "label": labels[int(chances.argmax())],
            "confidence": float(chances.max()),
            "labels": [labels[n] for n in order],
            "chances": [float(chances[n]) for n in order],
            "logits": [float(logits[n]) for n in order],
        }

    return Prepared(loaded.model, inputs, iterate)


def pixels_of(png: str) -> torch.Tensor:
    """A base64 PNG of 32 × 32 pixels as [3, 32, 32] from 0 to 1."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        array = np.asarray(image.convert("RGB").resize((SIDE, SIDE)), dtype=np.float32) / 255
    return torch.from_numpy(array.copy()).permute(2, 0, 1)


IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
OURS = ([0.5] * 3, [0.5] * 3)


def _normalisation(folder: Path | None, imagenet: bool) -> tuple[list[float], list[float]]:
    """As the model was trained with: its own file says so, else what we or ImageNet's models use."""
    own = folder / "preprocessor_config.json" if folder else None
    if own and own.exists():
        values = json.loads(own.read_text())
        return values["image_mean"], values["image_std"]
    return IMAGENET if imagenet else OURS


_PREPARE: dict[str, Callable[[Task, TaskRequest, Loaded], Prepared]] = {
    "answer": _answer,
    "generate": _generate,
    "classify": _classify,
}
