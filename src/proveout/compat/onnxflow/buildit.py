"""`build_model`: a model in, ONNX files in the cache out."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proveout.compat.onnxflow.build import (
    DEFAULT_CACHE_DIR,
    DEFAULT_ONNX_OPSET,
    REBUILD_OPTIONS,
    Config,
    State,
    Status,
    load_state,
    output_dir,
    state_file,
)
from proveout.compat.onnxflow.exceptions import ArgError, IntakeError
from proveout.compat.onnxflow.export import default_sequence, opset_of
from proveout.compat.onnxflow.stage import Sequence


@dataclass
class BaseModel:
    """A build that succeeded."""

    state: State


def build_model(
    model: Any = None,
    inputs: dict[str, Any] | None = None,
    build_name: str | None = None,
    cache_dir: str | Path = DEFAULT_CACHE_DIR,
    monitor: bool = True,
    rebuild: str | None = None,
    sequence: Sequence | None = None,
    quantization_samples: Any = None,
    onnx_opset: int | None = None,
    export_only: bool = False,
) -> BaseModel:
    """Export a PyTorch model, or take an ONNX file; optimise it and convert it to float16 unless `export_only`.

    Without a model, the stages of `sequence` go on from where the build of that name in the cache stands.
    """
    if quantization_samples is not None:
        raise ArgError("quantization_samples are not taken; quantise the ONNX file with onnxruntime.quantization.")
    if rebuild is not None and rebuild not in REBUILD_OPTIONS:
        raise ArgError(f"rebuild takes {', '.join(REBUILD_OPTIONS)}, not {rebuild!r}.")
    name = build_name or Path(sys.argv[0] or "model").stem
    folder = str(Path(cache_dir).expanduser())
    known = load_state(folder, name) if rebuild != "always" and state_file(folder, name).is_file() else None
    if model is None:
        return _go_on(known, Config(name, build_name is None), folder, sequence, inputs, monitor)
    _check(model, inputs)
    chosen = sequence or default_sequence(model, export_only)
    opset = _opset(model, onnx_opset)
    config = Config(name, build_name is None, tuple(chosen.names()), opset)
    identity = _hash(model, inputs)
    if known is not None:
        stale = known.config.sequence != config.sequence or known.config.onnx_opset != opset
        stale = stale or known.model_hash != identity or not Path(known.onnx_file or "-").is_file()
        if known.build_status is Status.SUCCESSFUL_BUILD and (not stale or rebuild == "never"):
            _say(monitor, f"Build {name!r} found in the cache {folder}.")
            return BaseModel(known)
    if rebuild == "never":
        raise ArgError(f"{folder} holds no build {name!r}, and rebuild='never' forbids to make it.")
    state = State(config, folder, model, inputs, monitor, rebuild or "if_needed", model_hash=identity)
    return _launch(chosen, state, monitor)


def _go_on(
    known: State | None,
    config: Config,
    folder: str,
    sequence: Sequence | None,
    inputs: dict[str, Any] | None,
    monitor: bool,
) -> BaseModel:
    """A build without a model: the one in the cache as it is, or taken further by more stages."""
    if sequence is None:
        if known is None:
            raise IntakeError(
                f"build_model takes a torch.nn.Module, the path of an ONNX file, a sequence of stages, or the name of a"
                f" build in the cache, and {folder} holds no build {config.build_name!r}."
            )
        return BaseModel(known)
    stages = tuple(sequence.names())
    if known is None:
        state = State(replace(config, sequence=stages), folder, inputs=inputs)
    else:
        state = replace(known, config=replace(known.config, sequence=(*known.config.sequence, *stages)))
        state.info.all_build_stages = list(state.config.sequence)
    return _launch(sequence, state, monitor)


def _launch(sequence: Sequence, state: State, monitor: bool) -> BaseModel:
    name = state.config.build_name
    state.save()
    _say(monitor, f'Building "{name}"')
    state = sequence.launch(state)
    state.save()
    if state.build_status is not Status.SUCCESSFUL_BUILD:
        _say(monitor, f"{name}: its stages ended without success (set_success).")
    _say(monitor, f"Saved to {output_dir(state.cache_dir, name)}")
    return BaseModel(state)


def _opset(model: Any, wanted: int | None) -> int:
    """The version of ONNX that the build's files have: a file's own, else the one that is wanted."""
    if not isinstance(model, (str, Path)):
        return wanted or DEFAULT_ONNX_OPSET
    opset = opset_of(model)
    if wanted not in (None, opset):
        raise ArgError(f"{model} is of opset {opset}, not of {wanted}: leave onnx_opset out, or export it again.")
    return opset


def _check(model: Any, inputs: Any) -> None:
    import torch

    if isinstance(model, (str, Path)):
        if not Path(model).is_file() or Path(model).suffix != ".onnx":
            raise IntakeError(f"{model} is not an ONNX file.")
        return
    if not isinstance(model, torch.nn.Module):
        kind = f"{type(model).__module__}.{type(model).__name__}"
        raise IntakeError(
            f"build_model takes a torch.nn.Module or the path of an ONNX file, not {kind}. Export it first: Keras with"
            " tf2onnx, scikit-learn, LightGBM and XGBoost with skl2onnx or Hummingbird."
        )
    if not isinstance(inputs, dict):
        raise IntakeError(f"build_model takes inputs as a dict of names and tensors, not {type(inputs).__name__}.")


def _hash(model: Any, inputs: dict[str, Any] | None) -> str:
    """Of what the ONNX file depends on: the model, its numbers and the shapes of its inputs."""
    digest = hashlib.sha256()
    if isinstance(model, (str, Path)):
        digest.update(Path(model).read_bytes())
    else:
        digest.update(str(model).encode())
        for name, tensor in model.state_dict().items():
            digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}{tensor.double().sum().item()!r}".encode())
    for name, value in sorted((inputs or {}).items()):
        digest.update(f"{name}{getattr(value, 'shape', value)}{getattr(value, 'dtype', '')}".encode())
    return digest.hexdigest()[:16]


def _say(monitor: bool, text: str) -> None:
    if monitor:
        print(text)


__all__ = ["BaseModel", "build_model"]
