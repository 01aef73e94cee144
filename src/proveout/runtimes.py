"""What can run a model, as one table: our compiler, eager PyTorch, its ATen graphs, Inductor, ONNX Runtime."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout import recording
from proveout.compat import onnxflow
from proveout.compat.mlagility.served import mlagility_names
from proveout.compat.onnxflow.finish import finish
from proveout.devices.registry import find
from proveout.errors import CaptureError, EnvironmentFault, UsageError, unknown
from proveout.folders import file_name
from proveout.types import Coverage, Job, OpStatus, Runtime

if TYPE_CHECKING:
    from proveout.capture import LiveModel
    from proveout.engine.compiled import Compiled


@dataclass(frozen=True)
class Candidate:
    """A model that a runtime has made ready: how it is called, what its time is named, and what is known besides."""

    call: Callable[..., Any]
    what: str = "compiled"
    device: str = "cpu"
    compiled: Compiled | None = None
    """Where it is our compiler's."""
    coverage: Callable[[], Coverage] = Coverage
    """Its ops, once it was called."""
    timed: bool = True
    """Whether a call's time says something: not on a mock, which computes nothing."""
    tensors_only: bool = False
    """It gives the output tensors in their order, without the model's own structure."""


Prepare = Callable[[Job, "LiveModel", Path, Callable[[str], None]], Candidate]
"""(job, model and inputs, a scratch folder, what to tell each pass of a compiler)."""


@dataclass(frozen=True)
class RuntimeRow:
    """One line of RUNTIMES: how a model is made ready, and the packages that takes beyond PyTorch's own."""

    prepare: Prepare
    needs: tuple[str, ...] = ()


def check_runtime(runtime: Runtime, files: Sequence[Path] = ()) -> None:
    """Refuse what this machine cannot do; a file that is ONNX already needs no exporter."""
    onnx = [file for file in files if file.suffix == ".onnx"]
    needed = RUNTIMES[runtime].needs or (("onnxruntime",) if onnx else ())
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        what = "--runtime ort" if runtime == "ort" else onnx[0].name
        raise EnvironmentFault(f"{what} needs {' and '.join(missing)}. Run: pip install {' '.join(missing)}")


def canonical(backend: str) -> Runtime:
    """A runtime's own name for any of its names; an unknown one is refused."""
    name = ALIASES.get(backend, backend)
    for known in RUNTIMES:
        if name == known:
            return known
    raise unknown("backend", backend, [*RUNTIMES, *ALIASES])


def _proveout(job: Job, captured: LiveModel, folder: Path, after_pass: Callable[[str], None]) -> Candidate:
    from proveout.engine.compiled import compile, undisturbed

    record = Path(job.artifacts) if "perf" in job.do and job.artifacts else None
    if record is not None:
        recording.clear(record)
    compiled = compile(
        captured.module,
        device=job.device,
        settings=job.settings,
        dry_run=job.do == ("compile",),
        dump=job.dump or None,
        record=record,
        call=(captured.args, captured.kwargs),
        after_pass=after_pass,
    )
    for kwargs in captured.more:
        with undisturbed(captured.module, kwargs):
            compiled(**kwargs)
    if not compiled.graphs and compiled.coverage.graph_breaks:
        raise CaptureError(f"PyTorch captured nothing of the model: {'; '.join(compiled.coverage.graph_breaks)}")
    times = find(job.device).times
    what = "simulation" if times == "modelled" else "compiled"
    return Candidate(compiled, what, compiled.device, compiled, lambda: compiled.coverage, timed=times != "none")


def _eager(job: Job, captured: LiveModel, folder: Path, after_pass: Callable[[str], None]) -> Candidate:
    return Candidate(quiet(captured.module), "eager")


def _inductor(job: Job, captured: LiveModel, folder: Path, after_pass: Callable[[str], None]) -> Candidate:
    import torch

    return Candidate(quiet(captured.module, torch.compile(captured.module, backend="inductor")))


def _stat(job: Job, captured: LiveModel, folder: Path, after_pass: Callable[[str], None]) -> Candidate:
    """The ATen graphs as PyTorch gives them, run unchanged, and their ops."""
    import torch

    from proveout.tracer.stat import Stat

    stat = Stat()

    def coverage() -> Coverage:
        nodes = [node for graph in stat.graphs for node in graph.nodes]
        return Coverage(tuple(OpStatus(n.name, n.op, "host") for n in nodes), num_graphs=len(stat.graphs))

    return Candidate(quiet(captured.module, torch.compile(captured.module, backend=stat)), coverage=coverage)


def _ort(job: Job, captured: LiveModel, folder: Path, after_pass: Callable[[str], None]) -> Candidate:
    """The model exported to ONNX; a file that is ONNX already runs as it is, on the inputs it was found with."""
    import torch

    if job.workload.is_onnx:
        session: Any = captured.module
        return Candidate(lambda **feed: session.run(None, feed), tensors_only=True)
    path = _built(job, captured, Path(job.artifacts) if job.artifacts else folder)
    session = open_onnx(path)
    names = [value.name for value in session.get_inputs()]

    def call(*args: Any, **kwargs: Any) -> list[Any]:
        feed = dict(zip(names, (tensor.detach().numpy() for tensor in tensors((args, kwargs)))))
        return [torch.from_numpy(value) for value in session.run(None, feed)]

    num_tensors = len(tensors((captured.args, captured.kwargs)))
    if len(names) != num_tensors:
        raise CaptureError(f"the exported model takes {len(names)} inputs where the call gave {num_tensors} tensors.")
    return Candidate(call, tensors_only=True)


RUNTIMES: dict[Runtime, RuntimeRow] = {
    "proveout": RuntimeRow(_proveout),
    "eager": RuntimeRow(_eager),
    "inductor": RuntimeRow(_inductor),
    "stat": RuntimeRow(_stat),
    "ort": RuntimeRow(_ort, ("onnxruntime", "onnx", "onnxscript")),
}
ALIASES = {"torch_ttnn": "proveout", "torch_stat": "stat"}
"""The names that the original TTNN backend's tools gave them."""


def quiet(model: Any, call: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A model as a Compiled runs it: without autograd unless it is being trained."""
    import torch

    function = model if call is None else call  # a compiled module is false where its own has no length

    def quietly(*args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad() if model.training else torch.no_grad():
            return function(*args, **kwargs)

    return quietly


def tensors(value: Any) -> list[Any]:
    """The tensors of a structure, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


# ------------------------------------------------------------------------------------------------ ONNX files


def live_onnx(job: Job) -> LiveModel:
    """An ONNX file as a session with seeded inputs; there is nothing to compare it with."""
    from proveout.capture import LiveModel

    session = open_onnx(Path(job.workload.script))
    return LiveModel(job.workload, session, (), example_feed(session, job.settings.seed))


def _built(job: Job, captured: LiveModel, folder: Path) -> Path:
    """The model's ONNX file: exported, or by the stages of the user's own sequence."""
    if job.sequence is None:
        path = export_onnx(captured, folder, job.onnx_opset, folder.parent.name if job.artifacts else "")
        if job.artifacts and job.onnx_build:
            finish(path, folder.parent, job.onnx_build == "convert")
        return path
    spec = importlib.util.spec_from_file_location("proveout_sequence", job.sequence.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mlagility_names():
        spec.loader.exec_module(module)
        if not callable(getattr(module, "get_sequence", None)):
            raise UsageError(
                f"{job.sequence.file} defines no get_sequence(). It gives the Sequence of a build's stages."
            )
        numbered = {f"Positional Arg {i}": value for i, value in enumerate(captured.args, 1)}
        build = folder.parent if job.artifacts else folder
        onnx_build = onnxflow.build_model(
            captured.module,
            {**captured.kwargs, **numbered},
            build.name if job.artifacts else "build",
            build.parent if job.artifacts else build,
            monitor=False,
            rebuild="always",
            sequence=module.get_sequence(),
            onnx_opset=job.onnx_opset,
        )
    if onnx_build.state.build_status is not onnxflow.build.Status.SUCCESSFUL_BUILD or not onnx_build.state.onnx_file:
        raise CaptureError(f"the stages of {job.sequence.file} ended without an ONNX file and set_success.")
    return Path(onnx_build.state.onnx_file)


def export_onnx(captured: LiveModel, folder: Path, opset: int | None = None, build: str = "") -> Path:
    """Write a model as an ONNX file of the version asked for, or of the exporter's own. Its outputs are the tensors of
    the model's, in their order: those of a cache are among them."""
    import torch

    from proveout.compat.onnxflow.flat import export_arguments, exportable

    folder.mkdir(parents=True, exist_ok=True)
    name = build or file_name(captured.workload.build_name)
    model = exportable(captured.module, captured.args, captured.kwargs)
    arguments = export_arguments(captured.args, captured.kwargs)
    with torch.no_grad():
        if opset is None or opset >= OLDEST_OPSET:
            try:
                exported = torch.onnx.export(model, arguments, opset_version=opset, dynamo=True, verbose=False)
            except torch.onnx.OnnxExporterError as error:  # its own text is a page of advice; the cause is the sentence
                reason = str(error.__cause__ or error).strip().partition("\n")[0]
                raise CaptureError(f"PyTorch cannot export the model to ONNX: {reason}") from error
            assert exported is not None
            path = folder / f"{name}-op{opset_of(exported.model_proto)}-base.onnx"
            exported.save(str(path))
        else:  # PyTorch's older exporter writes the versions that its newer one no longer can
            path = folder / f"{name}-op{opset}-base.onnx"
            torch.onnx.export(model, arguments, str(path), opset_version=opset, dynamo=False, verbose=False)
    return path


OLDEST_OPSET = 18
"""Of PyTorch's exporter; an older one is written by the exporter before it."""


def opset_of(model: Any) -> int:
    """The version of ONNX that a file is written in."""
    return int(next(known.version for known in model.opset_import if known.domain in ("", "ai.onnx")))


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
