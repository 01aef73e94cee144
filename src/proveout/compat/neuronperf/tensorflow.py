"""NeuronPerf's namespace for TensorFlow: Keras models on this machine's CPU, as they are (`proveout[tensorflow]`)."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from proveout.compat.neuronperf import compiling, running
from proveout.errors import EnvironmentFault, UsageError


def benchmark(model_filename: Any, inputs: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Measure a `.keras` or `.h5` file, a SavedModel's folder, an index of those, or a Keras model; inputs are NumPy
    arrays. A dict of them is one argument, as Keras takes it."""
    _refuse_without_tensorflow()
    running.log.debug("TensorFlow models run as they are on the CPU.")
    options = {"multiinterpreter": True, "device_type": "cpu", **kwargs}
    whole = [_one(each) for each in inputs] if isinstance(inputs, list) else _one(inputs)
    if not _is_keras(model_filename):
        return running.benchmark(model_filename, whole, *args, **options)
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        path = _saved(model_filename, Path(folder, model_filename.name))
        named = {"model_name": model_filename.name, **options}
        return running.benchmark(path, whole, *args, **named)


def compile(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> str:
    """Save a Keras model for each of its inputs and give the index of the files: TensorFlow traces it when it is
    loaded; our compiler takes PyTorch."""
    _refuse_without_tensorflow()
    if not _is_keras(model):
        raise UsageError(f"compile takes a tf.keras.Model here, not a {type(model).__name__}.")

    def compile_fn(model: Any, example: Any, models_dir: str, model_name: str, **_: Any) -> str:
        return _saved(model, Path(models_dir, model_name))

    return compiling.compile(compile_fn, model, inputs, *args, **{"model_name": model.name, **kwargs})


def evaluate(*args: Any, **kwargs: Any) -> NoReturn:
    """NeuronPerf's, too, is for PyTorch alone."""
    raise UsageError("evaluate takes PyTorch models: proveout.torch.evaluate. Keras has model.evaluate.")


def _one(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else value


def _is_keras(model: Any) -> bool:
    return any(base.__module__.partition(".")[0] in ("keras", "tf_keras") for base in type(model).__mro__)


def _saved(model: Any, path: Path) -> str:
    model.save(f"{path}.keras")
    return f"{path}.keras"


def _refuse_without_tensorflow() -> None:
    if importlib.util.find_spec("tensorflow") is None:
        raise EnvironmentFault(
            "TensorFlow is not installed: pip install 'proveout[tensorflow]' to benchmark Keras models on the CPU."
        )


__all__ = ["benchmark", "compile", "evaluate"]
