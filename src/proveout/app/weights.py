"""Which weights a task can have here, what is said about them, and the models with them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout.app.tasks import TASKS, Source, Task
from proveout.errors import ScriptError, UsageError

if TYPE_CHECKING:
    from torch import nn

SHIPPED = Path(__file__).with_name("weights")
"""The small models that training/ made, with their tokenizers, scores and samples. A wheel holds them all but for the
weights themselves, which are in the source tree; the digits', which are small and nowhere else, are in both."""
WEIGHTS, PACKED = "model.safetensors", "model.int8.safetensors"
"""Weights as `save_pretrained` leaves them, and in 8 bits with a scale for each row, as training/ packs them."""
HUB = ("huggingface.co", 443)
PROBE_S = 1.0
SOURCE_WEIGHTS = "SOURCE/src/proveout/app/weights"


@dataclass(frozen=True)
class Offer:
    """One choice: what it is called, and what is to be said plainly about it."""

    source: Source
    label: str
    says: str


def offers(task: Task, folder: str | None, reachable: Callable[[], bool]) -> list[Offer]:
    """What can be had, best first: the first one is the default."""
    offered = []
    if folder:
        offered.append(Offer("folder", "Your own", f"Weights from {_own(task, folder)}."))
    if task.checkpoint and (cached := is_cached(task.checkpoint)) | reachable():
        note = "from this machine's cache" if cached else f"{task.download}, fetched at the first run"
        caveat = f" ({task.caveat})" if task.caveat else ""
        offered.append(Offer("pretrained", "Pretrained", f"{task.checkpoint}, {note}{caveat}."))
    if _has_weights(SHIPPED / task.path):
        score = score_of(SHIPPED / task.path)
        size = f"{score['parameters'] / 1e6:.1f} M parameters"
        says = f"A small model of the same architecture ({size}), trained on {score['data']}. {_score(score)}"
        offered.append(Offer("small", "Small, trained here", says))
    says = f"{task.model} with seeded random weights: the speed is real, the answer is noise."
    if all(offer.source == "pretrained" for offer in offered):
        says += f" Small trained models come with the source tree: proveout app --weights {SOURCE_WEIGHTS}"
    offered.append(Offer("random", "True size, random weights", says))
    return offered


def score_of(folder: Path) -> dict[str, Any]:
    """What is known about the weights of a folder: their score, their data, how sure they must be; empty for none."""
    try:
        score = json.loads((folder / "score.json").read_text())
    except (OSError, ValueError):
        return {}
    return score if isinstance(score, dict) else {}


def longest(task: Task, source: Source, folder: str | None) -> int:
    """Tokens that the model of these weights takes at most, in and out together."""
    places: dict[Source, Path] = {"small": SHIPPED / task.path, "folder": _own(task, folder or "")}
    try:
        if source == "pretrained":
            config = json.loads(Path(_cached_file(task.checkpoint, "config.json")).read_text())
        else:
            config = json.loads((places[source] / "config.json").read_text()) if source in places else {}
    except (OSError, ValueError, TypeError):
        config = {}
    most = config.get("n_positions") or config.get("max_position_embeddings") or POSITIONS[task.path]
    return int(most)


POSITIONS = {"answers": 512, "text": 1024, "code": 2048}
"""Of the models at their true size."""


def token_counter(task: Task, source: Source, folder: str | None) -> Callable[[str], int] | None:
    """How many tokens a text is for the tokenizer of these weights; None where its file is not on this machine."""
    places: dict[Source, Path] = {
        "small": SHIPPED / task.path,
        "random": SHIPPED / task.path,
        "folder": _own(task, folder or ""),
    }
    path = (
        _cached_file(task.checkpoint, "tokenizer.json") if source == "pretrained" else places[source] / "tokenizer.json"
    )
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.no_truncation()
    except Exception:  # the library raises a bare Exception for a file that is not there or not a tokenizer
        return None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _cached_file(checkpoint: str, name: str) -> str:
    """A checkpoint's file in the Hugging Face cache; empty where it is not there."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return ""
    path = try_to_load_from_cache(checkpoint, name)
    return path if isinstance(path, str) else ""


def _has_weights(folder: Path) -> bool:
    return (folder / WEIGHTS).exists() or (folder / PACKED).exists()


def _score(score: dict[str, Any]) -> str:
    value = score["value"]
    shown = f"{value:.1%}" if value <= 1 else f"{value:.1f}"
    return f"Held-out score: {shown} ({score['score']})."


def is_cached(checkpoint: str) -> bool:
    """Whether a checkpoint's files lie in the Hugging Face cache of this machine."""
    files = ("model.safetensors", "pytorch_model.bin")
    return bool(_cached_file(checkpoint, "config.json")) and any(_cached_file(checkpoint, file) for file in files)


def hub_answers() -> bool:
    """Whether the hub can be reached; says no within a second, and at once where the user chose to be offline."""
    if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0"):
        return False
    try:
        socket.create_connection(HUB, timeout=PROBE_S).close()
    except OSError:
        return False
    return True


# ------------------------------------------------------------------------------- in the worker: the models themselves


@dataclass(frozen=True)
class Loaded:
    """A model, its tokenizer where it reads text, and where they come from."""

    model: nn.Module
    tokenizer: Any = None
    folder: Path | None = None


def load(task: Task, source: Source, folder: str | None, seed: int = 0) -> Loaded:
    """The task's model in float32 and eval mode; an error says what is missing."""
    if source == "random":
        import torch

        torch.manual_seed(seed)
        return Loaded(TRUE_SIZE[task.path]().eval(), _tokenizer(task, SHIPPED / task.path))
    places: dict[Source, Path | str] = {
        "small": SHIPPED / task.path,
        "folder": _own(task, folder or ""),
        "pretrained": task.checkpoint,
    }
    where = places[source]
    if isinstance(where, Path) and not _has_weights(where):
        raise UsageError(
            f"there are no weights for {task.path} in {where}: expected model.safetensors"
            f"{'' if task.path == 'digits' else ', config.json and the tokenizer'}, as save_pretrained leaves them."
        )
    try:
        if isinstance(where, Path) and (where / PACKED).exists():
            model = unpacked(task, where)
        else:
            model = _digits(where) if task.path == "digits" else _auto(task).from_pretrained(where, **_numbers())
        tokenizer = _tokenizer(task, where)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise ScriptError(f"cannot load {where}: {first} Choose other weights on the page.") from error
    return Loaded(model.float().eval(), tokenizer, where if isinstance(where, Path) else None)


def unpacked(task: Task, folder: Path) -> nn.Module:
    """A model with the weights that training/ packed into 8 bits; ValueError where they do not fit its config."""
    from safetensors.torch import load_file
    from transformers import AutoConfig

    model: nn.Module = _auto(task).from_config(AutoConfig.from_pretrained(folder))
    stored = load_file(folder / PACKED)
    tensors = {
        name: value.float() * stored[f"{name}.scale"].float().reshape(-1, *[1] * (value.ndim - 1))
        if f"{name}.scale" in stored
        else value
        for name, value in stored.items()
        if not name.endswith(".scale") or name.removesuffix(".scale") not in stored
    }
    missing, unknown = model.load_state_dict(tensors, strict=False)
    model.tie_weights()  # type: ignore[operator]
    tied = {name for name in missing if model.get_parameter(name).data_ptr() in _pointers(model, tensors)}
    if unknown or set(missing) - tied:
        raise ValueError(f"{PACKED} does not fit config.json: {', '.join([*unknown, *missing][:3])}.")
    return model


def _pointers(model: nn.Module, names: dict[str, Any]) -> set[int]:
    """Where the parameters of these names lie."""
    return {value.data_ptr() for name, value in model.named_parameters(remove_duplicate=False) if name in names}


def _own(task: Task, folder: str) -> Path:
    """The task's folder in the user's, or the user's itself where it holds one model."""
    inside = Path(folder, task.path)
    return inside if inside.is_dir() else Path(folder)


def _numbers() -> dict[str, Any]:
    import torch

    return {"dtype": torch.float32}


def _auto(task: Task) -> Any:
    import transformers

    transformers.logging.disable_progress_bar()
    names = {
        "answer": "AutoModelForQuestionAnswering",
        "generate": "AutoModelForCausalLM",
        "classify": "AutoModelForImageClassification",
    }
    return getattr(transformers, names[task.kind])


def _tokenizer(task: Task, where: Path | str) -> Any:
    if task.kind == "classify":
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(where)


def _digits(where: Path | str) -> nn.Module:
    from safetensors.torch import load_file

    model = _digit_net()
    model.load_state_dict(load_file(Path(where, "model.safetensors")))
    return model


def _bert_large() -> nn.Module:
    from transformers import BertConfig, BertForQuestionAnswering

    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    return BertForQuestionAnswering(config)


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def _codegen() -> nn.Module:
    from transformers import CodeGenConfig, CodeGenForCausalLM

    return CodeGenForCausalLM(CodeGenConfig(vocab_size=51200, n_embd=1024, n_layer=20, n_head=16, rotary_dim=32))


def _resnet18() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"embedding_size": 64, "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}
    return ResNetForImageClassification(ResNetConfig(layer_type="basic", num_labels=10, **sizes))


def _digit_net() -> nn.Module:
    from proveout.app.digit_net import DigitNet

    return DigitNet()


TRUE_SIZE: dict[str, Callable[[], nn.Module]] = {
    "answers": _bert_large,
    "text": _gpt2,
    "code": _codegen,
    "pictures": _resnet18,
    "digits": _digit_net,
}
assert TRUE_SIZE.keys() == TASKS.keys()
