"""The worker's models made ready: inputs of one call, what one timed iteration is, and what its outputs mean."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from proveout.app.tasks import TASKS, Request, Task
from proveout.app.weights import Loaded, load
from proveout.clock.pacing import clock
from proveout.errors import UsageError

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


def prepare(request: Request) -> Prepared:
    """Load what a Request asks for and make its inputs."""
    task = TASKS[request.task]
    loaded = load(task, request.source, request.weights, request.settings.seed)
    return _PREPARE[task.kind](task, request, loaded)


# ------------------------------------------------------------------------------------------------ question answering

LONGEST_ANSWER = 30
"""Tokens."""


def _answer(task: Task, request: Request, loaded: Loaded) -> Prepared:
    given = request.inputs
    length = _checked_length(loaded.model, given.length, 0)
    encoded = loaded.tokenizer(
        given.question,
        given.context,
        max_length=length,
        padding="max_length",
        truncation="only_second",
        return_offsets_mapping=True,
        return_tensors="pt",
    )
    offsets = encoded.pop("offset_mapping")[0].tolist()
    in_context = torch.tensor([part == 1 for part in encoded.sequence_ids(0)])
    inputs = dict(encoded)

    def iterate(call: Call, tell: Tell) -> dict[str, Any]:
        outputs = call(**inputs)
        return answer_span(outputs.start_logits[0], outputs.end_logits[0], in_context, offsets)

    return Prepared(loaded.model, inputs, iterate, length)


def answer_span(
    start: torch.Tensor, end: torch.Tensor, in_context: torch.Tensor, offsets: list[list[int]]
) -> dict[str, Any]:
    """The likeliest span of the passage, or none where the first token, `[CLS]`, is likelier: SQuAD 2's way to say
    that there is no answer. The score is the span's probability among all tokens."""
    begin, finish = start.float().log_softmax(0), end.float().log_softmax(0)
    allowed = torch.triu(torch.ones(len(start), len(start), dtype=torch.bool)).tril(LONGEST_ANSWER - 1)
    allowed &= in_context[:, None] & in_context[None, :]
    scores = (begin[:, None] + finish[None, :]).masked_fill(~allowed, float("-inf"))
    best = int(scores.argmax())
    first, last = divmod(best, len(start))
    none = float(begin[0] + finish[0])
    if none > float(scores.max()):
        return {"span": None, "score": float(torch.tensor(none).exp())}
    return {"span": [offsets[first][0], offsets[last][1]], "score": float(scores.max().exp())}


# -------------------------------------------------------------------------------------------------------- generation


class NextToken(nn.Module):
    """A language model's logits for the token after position `last` of a padded sequence."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        outputs = self.model(input_ids=ids, attention_mask=mask, logits_to_keep=last, use_cache=False)
        logits: torch.Tensor = outputs.logits[:, -1]
        return logits


def _generate(task: Task, request: Request, loaded: Loaded) -> Prepared:
    """One compiled Program serves all tokens: the sequence has its full length from the start, padded on the right,
    where causal attention cannot see it and the mask forbids it; each token is one more call."""
    given, tokenizer = request.inputs, loaded.tokenizer
    new = given.new_tokens
    length = _checked_length(loaded.model, given.length, new)
    prompt = tokenizer(given.prompt)["input_ids"][-length:]
    if not prompt:
        raise UsageError("the prompt is empty: enter a few words.")
    known = len(tokenizer)

    def text_of(tokens: list[int]) -> str:
        if all(token < known for token in tokens):
            return str(tokenizer.decode(tokens))
        return " ".join(tokenizer.decode([t]) if t < known else f"⟨{t}⟩" for t in tokens)

    start = text_of(prompt)

    def iterate(call: Call, tell: Tell) -> dict[str, Any]:
        tokens, began, first_ns = list(prompt), clock(), 0
        for _ in range(new):
            tokens.append(int(call(**padded(tokens, length + new))[0].argmax()))
            first_ns = first_ns or clock() - began
            tell({"prompt": start, "text": text_of(tokens[len(prompt) :])})
        return {"prompt": start, "text": text_of(tokens[len(prompt) :]), "first_token_ns": first_ns}

    return Prepared(NextToken(loaded.model).eval(), padded(prompt, length + new), iterate, new)


def padded(tokens: list[int], length: int, filler: int = 0) -> dict[str, torch.Tensor]:
    """The inputs of `NextToken`; whatever `filler` is, it is masked."""
    ids = torch.full((1, length), filler)
    ids[0, : len(tokens)] = torch.tensor(tokens)
    mask = (torch.arange(length) < len(tokens)).long()[None]
    return {"ids": ids, "mask": mask, "last": torch.tensor([len(tokens) - 1])}


def _checked_length(model: nn.Module, length: int, more: int) -> int:
    config: Any = model.config
    most = getattr(config, "n_positions", None) or config.max_position_embeddings
    if not 1 <= length <= most - more:
        extra = f" and {more} new ones" if more else ""
        raise UsageError(f"{length} tokens{extra} do not fit: this model takes 1 to {most} in all.")
    return length


# ------------------------------------------------------------------------------------------------------------ images


def _classify(task: Task, request: Request, loaded: Loaded) -> Prepared:
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
        found = json.loads(own.read_text())
        return found["image_mean"], found["image_std"]
    return IMAGENET if imagenet else OURS


_PREPARE: dict[str, Callable[[Task, Request, Loaded], Prepared]] = {
    "answer": _answer,
    "generate": _generate,
    "classify": _classify,
}
