"""Models in a framework's own file: TorchScript and Keras. Only the worker that measures them opens them.

A file is a stranger's. TorchScript's reader knows tensors and its own instructions, never Python's; Keras refuses files
that hold Python code (`safe_mode`). Both run where a model's own code would: in a fresh process with a benchmark's
limits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proveout.clock.loops import Arguments
from proveout.errors import CaptureError, EnvironmentFault, UsageError

KERAS = (".keras", ".h5", ".hdf5")
SAVED_MODEL = "saved_model.pb"
"""What a folder of TensorFlow's SavedModel holds."""


def loader_of(path: Path) -> Callable[[], Any] | None:
    """What loads this file in a worker; None where it is no framework's."""
    if path.suffix in KERAS or (path / SAVED_MODEL).exists():
        return functools.partial(load_keras, str(path))
    if path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] for name in archive.namelist()}
        if "constants.pkl" in names:
            return functools.partial(load_script, str(path))
        if "data.pkl" in names:
            raise UsageError(
                f"{path} holds pickled Python objects, not TorchScript: save torch.jit.trace(model, inputs), "
                "or give the model's class."
            )
    return None


def load_script(path: str) -> Any:
    """A TorchScript file as a module in eval mode."""
    import torch

    try:
        return torch.jit.load(path, map_location="cpu").eval()
    except (RuntimeError, ValueError, OSError) as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(f"{path} cannot be read as TorchScript: {why}") from error


def load_keras(path: str) -> Any:
    """A Keras or SavedModel file as a function of NumPy arrays."""
    tensorflow = tensorflow_here()
    threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    with contextlib.suppress(RuntimeError):  # it has begun already, in a process that is not a worker's own
        tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
    try:
        if Path(path).is_dir():
            return _signature(tensorflow.saved_model.load(path))
        model = tensorflow.keras.models.load_model(path, compile=False)
    except (OSError, ValueError, TypeError) as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(f"{path} cannot be read as a Keras model: {why}") from error
    return GraphCall(model)


def tensorflow_here() -> Any:
    """TensorFlow, where it is installed."""
    try:
        import tensorflow  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise EnvironmentFault(
            "TensorFlow is not installed: pip install 'proveout[tensorflow]' to benchmark Keras models on the CPU."
        ) from error
    return tensorflow


class GraphCall:
    """A Keras model as TensorFlow runs it in production: traced once for each shape, called in inference mode."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._call = tensorflow_here().function(lambda *args: model(*args, training=False))

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


def _signature(loaded: Any) -> Callable[..., Any]:
    """What a SavedModel serves: its arguments by position, or by name in one dict."""
    served = loaded.signatures["serving_default"]
    names = list(served.structured_input_signature[1])

    def call(*args: Any) -> Any:
        tensorflow = tensorflow_here()
        named = args[0] if len(args) == 1 and isinstance(args[0], dict) else dict(zip(names, args))
        return served(**{name: tensorflow.convert_to_tensor(value) for name, value in named.items()})

    return call


def compilable(model: Any, example: Arguments) -> Any:
    """A module that can be captured: TorchScript is converted to a graph for this call, anything else is as it was."""
    torch = sys.modules["torch"]
    if not isinstance(model, torch.jit.ScriptModule):
        return model
    args, kwargs = example
    try:
        from torch._export.converter import TS2EPConverter

        return TS2EPConverter(model, tuple(args), dict(kwargs)).convert().module(check_guards=False)
    except Exception as error:  # a private converter, which raises many kinds; the model runs as it is on the CPU
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise CaptureError(
            f"PyTorch cannot turn this TorchScript into a graph to compile ({why}): run it with device_type='cpu', "
            "or give the module itself."
        ) from error
