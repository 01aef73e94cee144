"""Runs models by other means than our compiler, to compare with: eager PyTorch, Inductor, ONNX Runtime."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout.errors import CaptureError, EnvironmentFault
from proveout.types import Comparison, Job, Runtime, Timing

if TYPE_CHECKING:
    from proveout.capture import Found

Call = Callable[[], Any]

NEEDS: dict[Runtime, tuple[str, ...]] = {"ort": ("onnxruntime", "onnx", "onnxscript")}
"""Packages beyond PyTorch's own."""


def check_runtime(runtime: Runtime, files: Sequence[Path] = ()) -> None:
    """Refuse what this machine cannot do; a file that is ONNX already needs no exporter."""
    onnx = [file for file in files if file.suffix == ".onnx"]
    needed = NEEDS.get(runtime, ()) or (("onnxruntime",) if onnx else ())
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        what = "--runtime ort" if runtime == "ort" else onnx[0].name
        raise EnvironmentFault(f"{what} needs {' and '.join(missing)}. Run: pip install {' '.join(missing)}")


@dataclass(frozen=True)
class Ran:
    """What another runtime gave."""

    comparisons: tuple[Comparison, ...] = ()
    timings: tuple[Timing, ...] = ()


def run_model(job: Job, found: Found, eager: Callable[..., Any]) -> Ran:
    """Check a model against eager mode and time both."""
    from proveout import check

    original: Call = lambda: eager(*found.args, **found.kwargs)  # noqa: E731
    if job.runtime == "eager":
        return Ran(timings=_timings(job, {"eager": original}))
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        call = _inductor(found) if job.runtime == "inductor" else _exported(found, Path(folder))
        wanted, got = _tensors(original()), _tensors(call())
        comparisons = tuple(check.compare_outputs(got, wanted, job.settings.pcc))
        return Ran(comparisons, _timings(job, {"eager": original, "compiled": call}))


def run_onnx(job: Job) -> Ran:
    """Time an ONNX file as it is, on seeded inputs; there is nothing to compare it with."""
    session = open_onnx(Path(job.workload.script))
    feed = example_feed(session, job.settings.seed)
    return Ran(timings=_timings(job, {"compiled": lambda: session.run(None, feed)}))


def open_onnx(path: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def example_feed(session: Any, seed: int = 0) -> dict[str, Any]:
    """Inputs for a session: dimensions without a size are 1."""
    import numpy as np

    random = np.random.default_rng(seed)
    feed = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        dtype = NUMPY_OF_ONNX.get(value.type)
        if dtype is None:
            raise CaptureError(f"input {value.name!r} has type {value.type}; known: {', '.join(NUMPY_OF_ONNX)}.")
        whole = not dtype.startswith("float")
        feed[value.name] = (random.integers(0, 2, shape) if whole else random.standard_normal(shape)).astype(dtype)
    return feed


NUMPY_OF_ONNX = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(int64)": "int64",
    "tensor(int32)": "int32", "tensor(uint8)": "uint8", "tensor(int8)": "int8", "tensor(bool)": "bool",
}  # fmt: skip


def _inductor(found: Found) -> Call:
    import torch

    compiled = torch.compile(found.module, backend="inductor")

    def call() -> Any:
        with torch.enable_grad() if found.module.training else torch.no_grad():
            return compiled(*found.args, **found.kwargs)

    return call


def _exported(found: Found, folder: Path) -> Call:
    import torch

    path = folder / "model.onnx"
    with torch.no_grad():
        exported = torch.onnx.export(found.module, found.args, kwargs=found.kwargs, dynamo=True, verbose=False)
    assert exported is not None
    exported.save(str(path))
    session = open_onnx(path)
    tensors = _tensors((found.args, found.kwargs))
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(tensors):
        raise CaptureError(f"the exported model takes {len(names)} inputs where the call gave {len(tensors)} tensors.")
    feed = {name: tensor.detach().numpy() for name, tensor in zip(names, tensors)}
    return lambda: [torch.from_numpy(value) for value in session.run(None, feed)]


def _tensors(value: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _timings(job: Job, calls: dict[str, Call]) -> tuple[Timing, ...]:
    from proveout import measure

    if "benchmark" not in job.do:
        return ()
    share = job.duration_s / len(calls)
    return tuple(
        measure.measured(what, "cpu", call, iterations=job.iterations, warmup=job.warmup, duration_s=share)
        for what, call in calls.items()
    )
