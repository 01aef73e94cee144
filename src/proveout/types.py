"""The values that travel between the rooms: frozen dataclasses, no torch."""

from __future__ import annotations

import functools
import math
import statistics
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from proveout.coding import digest, to_json
from proveout.coverage import Coverage, Fallback, OpState, OpStatus
from proveout.errors import UsageError
from proveout.serving import Configuration
from proveout.settings import OF_A_CHIP, Fidelity, Precision, Settings, Weights
from proveout.tensor_spec import (
    DRAM,
    DTYPE_BYTES,
    HOST,
    L1,
    TILE,
    Buffer,
    DeviceSpec,
    Layout,
    Memory,
    Origin,
    Sharding,
    ShardSpec,
    TensorSpec,
    short_dtype,
)  # fmt: skip

SCHEMA = 2
"""Version of the Record format on disk; the store reads schema 1 too, whose times have neither interval nor verdict."""

Kind = Literal["measured", "modelled"]
Source = Literal["measured", "modelled", "modelled + measured host"]
"""Where a number comes from: a clock, a model, or the sum of what both say of a call's parts."""
Judgement = Literal["steady", "unsteady", "too few", "predicted", "not judged"]
"""What samples are worth: the median stands; it does not; there are too few to say; a model gave it; nobody looked."""

PROMISED: dict[Kind, float] = {"measured": 0.95, "modelled": 0.8}
"""How often the truth lies in a timing's interval: in that of a clock's median, and in that of a prediction."""


@dataclass(frozen=True)
class Workload:
    """One model with one set of inputs, found in a script."""

    name: str
    script: str
    selector: str
    """Stable hash of (architecture, input shapes); picks the model inside its script."""
    class_name: str = ""
    inputs: tuple[tuple[str, TensorSpec], ...] = ()
    parameters: int = 0
    parameter_bytes: int = 0
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    script_args: str = ""
    location: str = ""
    """Where the model was built: file and line."""
    calls: int = 1
    seconds: float = 0.0
    depth: int = 0
    """How many module calls stood around this one; 0 for a model of its own."""
    weights: str = ""
    """What `--weights` asked for: `random`, `pretrained`, `meta` or a folder; empty for what the script itself does."""
    random_weights: tuple[str, ...] = ()
    """The checkpoints that were asked for and got seeded random weights instead."""
    obstacle: str = ""
    """Why the model can be timed but not compiled; empty where it can."""
    source: str = ""
    """Digest of the script and the modules beside it that it imports."""
    mode: Literal["inference", "training"] = "inference"
    """How the model is run: in training only where its script takes gradients, whatever mode it was left in."""
    other_hashes: tuple[str, ...] = ()
    """What MLAgility calls the model: its hashes pick it too."""

    def is_named(self, selector: str) -> bool:
        """Whether a hash that a user typed means this model."""
        return selector in (self.selector, *self.other_hashes)

    @property
    def build_name(self) -> str:
        """What MLAgility calls a model with its inputs: the script's name, its author and its hash."""
        stem = self.script.rpartition("/")[2].rpartition(".")[0] or self.name
        return "_".join([stem, *dict(self.labels).get("author", ())[:1], *([self.build_hash] if self.selector else [])])

    @property
    def model_hash(self) -> str:
        """MLAgility's hash of the model alone, ours where it has none."""
        return self.other_hashes[0] if self.other_hashes else self.selector

    @property
    def build_hash(self) -> str:
        """MLAgility's hash of the model with its inputs, ours where it has none."""
        return self.other_hashes[-1] if len(self.other_hashes) > 1 else self.selector

    @property
    def expects_failure(self) -> bool:
        return ("expect", ("fail",)) in self.labels

    @property
    def is_onnx(self) -> bool:
        """A file for ONNX Runtime, which runs it as it is, on the CPU; its parameters are not counted."""
        return self.script.endswith(".onnx")


META = "meta"
"""A Workload's `weights` where its tensors have shapes and no values: it can be planned, not run."""


@dataclass(frozen=True)
class Limits:
    """What a script may use while it runs. Time is its caller's to watch."""

    memory_bytes: int = 0
    """Of each process; 0 for no limit."""
    processes: int = 0
    """At one time; 0 for no limit."""
    network: bool = True
    sandbox: bool = False
    """Whether it may write below its working folder only."""


Runtime = Literal["proveout", "eager", "inductor", "stat", "ort"]
Do = Literal[
    "compile",
    "run",
    "export",
    "check",
    "benchmark",
    "perf",
    "serve",
    "evaluate",
    "generate",
    "load",
    "trace",
    "explain",
    "minimize",
    "tune",
]


@dataclass(frozen=True)
class Trace:
    """What a trace writes down: the ATen graphs as PyTorch gives them (`orig`) or the compiled Programs."""

    orig: bool = False
    backward: bool = False
    profile: bool = False


@dataclass(frozen=True)
class Sequenced:
    """A file of MLAgility's that says by which stages a model becomes an ONNX file, and a digest of its text."""

    file: str
    digest: str

    @staticmethod
    def of(path: Path) -> Sequenced:
        if not path.is_file():
            raise UsageError(f"{path} is not a file. A sequence file defines get_sequence().")
        return Sequenced(str(path.absolute()), digest([path.read_text(encoding="utf-8", errors="replace")])[:12])


@dataclass(frozen=True)
class Explain:
    """What a model's error is told against: eager mode, or the same model on another device or under other settings."""

    device: str = ""
    settings: Settings | None = None
    every: bool = False
    """Look into every op, whatever it costs."""


@dataclass(frozen=True)
class Tune:
    """What a search over single ops is asked: the quickest model within its budget, or the smallest cure; or whether a
    certificate holds."""

    goal: Literal["faster", "cure"] = "faster"
    minutes: float = 30.0
    check: str = ""
    """A certificate to replay instead."""
    top1: float = 0.0
    """Share of rows of scores whose largest element must stay; 0 where that is not asked."""


@dataclass(frozen=True)
class Job:
    """One thing to do, as pure JSON: what workers, caches and the app exchange."""

    workload: Workload
    device: str = "sim"
    settings: Settings = OF_A_CHIP
    do: tuple[Do, ...] = ("check", "benchmark")
    """`compile` alone runs nothing on the device; the others compile too."""
    iterations: int = 20
    warmup: int = 3
    timeout_s: float = 600.0
    artifacts: str = ""
    """Folder to leave the Programs in; empty for none."""
    dump: str = ""
    """Folder to leave each graph in as it is after every pass; empty for none."""
    duration_s: float = 0.0
    """Seconds of timed calls instead of a number of them; 0 for the number."""
    runtime: Runtime = "proveout"
    """What runs the model: our compiler, or another's to compare with."""
    limits: Limits = Limits()
    lean: bool = False
    """Keep no compiled Programs, only the Record."""
    baseline: bool = True
    """Time eager mode on this machine too."""
    serve: Configuration | None = None
    """How the model is served where that is what is benchmarked: `proveout.benchmark` and NeuronPerf's names."""
    enough_s: float | None = None
    """Seconds that may be added to `iterations` of what is measured, until there are enough calls to judge."""
    trace: Trace | None = None
    """What to write down where the model is traced; into `artifacts`."""
    onnx_opset: int | None = None
    """The version of ONNX that `--runtime ort` exports to; None for the exporter's own."""
    onnx_build: Literal["export", "convert"] | None = None
    """Whether the ONNX file in `artifacts` is a build of MLAgility's, with its state; and optimised and converted."""
    sequence: Sequenced | None = None
    """The stages that make the ONNX file, where they are the user's own."""
    explain: Explain | None = None
    """What the error is told against where it is explained; into `artifacts`."""
    tune: Tune | None = None
    """What a search over single ops is asked; its certificate goes into `artifacts`."""
    slower_than_ns: int | None = None
    """A modelled time above this is a failure where a failure is made small."""

    @property
    def key(self) -> str:
        """Names the Record: changes whenever the model, its shapes, a setting or a version that matters does."""
        w = self.workload
        apart = ["workload", "timeout_s", "artifacts", "dump", "limits", "lean"]
        younger = (
            "serve",
            "trace",
            "enough_s",
            "onnx_opset",
            "onnx_build",
            "sequence",
            "explain",
            "tune",
            "slower_than_ns",
        )  # than most
        apart += [name for name in younger if getattr(self, name) is None]
        doing = {k: v for k, v in to_json(self).items() if k not in apart}
        if not self.settings.per_op:
            del doing["settings"]["per_op"]
        # The last folder tells two scripts of one name apart; more of the path would tie Records to a machine.
        script = "/".join(w.script.split("/")[-2:])
        model = [w.name, script, w.selector, w.source, w.script_args, w.weights]
        return digest([model, doing, sorted(versions().items())])[:20]


@dataclass(frozen=True)
class Comparison:
    """How close one tensor is to its reference, and the verdict with its reason."""

    scope: Literal["step", "output"]
    name: str
    pcc: float | None
    rel_l2: float | None
    max_abs: float | None
    threshold: float
    passed: bool
    reason: str = ""
    accumulated_pcc: float | None = None
    origin: Origin = Origin()
    max_ulp: float | None = None
    """Largest difference in units in the last place of the coarser of the two dtypes, or of the one asked for."""
    within: float | None = None
    """Share of elements within the tolerance that closeness is judged by."""


@dataclass(frozen=True)
class ModeGap:
    """One output's PCC in both numerics against one reference, and whether the first may stand for the second."""

    name: str
    fast_pcc: float | None
    faithful_pcc: float | None
    threshold: float
    trusted: bool
    reason: str = ""


@dataclass(frozen=True)
class StepGap:
    """One Step in both numerics, on the same operands: those that `faithful` computed."""

    kernel: str
    origin: Origin = Origin()
    rel_l2: float | None = None
    """How far the two results are apart; None where they differ in what is not finite."""
    errata: int = 0
    """Its sums that tt-metal#38306 spoilt."""

    @property
    def place(self) -> str:
        """Where the user finds it: its module, else its ATen node."""
        return self.origin.module or self.origin.node or self.kernel


@dataclass(frozen=True)
class Trust:
    """Whether the PCC of `fast` numerics stands for the chip's with this model, found by running both modes."""

    trusted: bool | None
    """None where `faithful` was not run."""
    reason: str
    outputs: tuple[ModeGap, ...] = ()
    steps: tuple[StepGap, ...] = ()
    """Where the modes differ most, largest first."""
    errata: tuple[StepGap, ...] = ()
    """Every Step that met tt-metal#38306, in the order in which they run."""

    @property
    def verdict(self) -> str:
        """One sentence for people."""
        said = {True: "fast's PCC can be trusted", False: "fast's PCC cannot be trusted", None: "fast was not judged"}
        return f"{said[self.trusted]} for this model: {self.reason}"


@dataclass(frozen=True)
class Timing:
    """Raw samples of one quantity, and what they are worth. `kind` says whether a clock or a model produced them; the
    two never mix."""

    what: str
    kind: Kind
    device: str
    samples_ns: tuple[int, ...]
    conditions: tuple[tuple[str, str], ...] = ()
    interval_ns: tuple[float, float] | None = None
    """Where the truth lies: that of the median in 95 % of cases where a clock gave the samples, that of the prediction
    in 80 % where a model did (PROMISED)."""
    verdict: Judgement = "not judged"
    why: str = ""
    """What speaks against the number and what to do about it; empty where nothing does."""
    parts: tuple[str, ...] = ()
    """The Record's other timings that this one is the sum of, by their `what`; it is modelled where one of them is."""

    @property
    def source(self) -> Source:
        """Its kind as people read it: a sum whose one part was measured is not simply modelled."""
        return "modelled + measured host" if self.parts else self.kind

    @property
    def median_ns(self) -> float:
        return statistics.median(self.samples_ns)

    @property
    def mean_ns(self) -> float:
        return statistics.fmean(self.samples_ns)

    @property
    def p95_ns(self) -> float | None:
        """None where the sample cannot support a 95th percentile (fewer than 20); one modelled value has none."""
        return self.percentile(0.95) if self.kind == "measured" and len(self.samples_ns) >= 20 else None

    def percentile(self, q: float) -> float:
        ordered = sorted(self.samples_ns)
        position = q * (len(ordered) - 1)
        low = math.floor(position)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


Place = Literal["input", "output", "device", "layout", "transfer", "host"]


@dataclass(frozen=True)
class GraphNode:
    """One box of a drawn graph: what it is called, what it gives, where it runs and whose results it reads."""

    name: str
    label: str
    place: Place
    note: str = ""
    """The second line: the result's shape and dtype."""
    title: str = ""
    """What a pointer resting on it shows."""
    uses: tuple[str, ...] = ()


@dataclass(frozen=True)
class MemoryUse:
    """Peaks over a Program from the allocator's simulation, tile padding included. Always modelled."""

    l1_peak_bytes: int = 0
    l1_peak_per_core_bytes: int = 0
    l1_per_core_bytes: int = 0
    dram_peak_bytes: int = 0
    weight_bytes: int = 0
    fits: bool = True
    peak_at: str = ""


Status = Literal["passed", "failed", "expected_failure", "partial"]


@dataclass(frozen=True)
class Record:
    """All that was learnt from one Job."""

    job: Job
    status: Status
    reason: str = ""
    failure: str = ""
    log: str = ""
    coverage: Coverage = Coverage()
    comparisons: tuple[Comparison, ...] = ()
    timings: tuple[Timing, ...] = ()
    memory: MemoryUse = MemoryUse()
    accuracy: float | None = None
    """What the script's own `evaluate_on(model)` gave for the compiled model, in per cent."""
    accuracy_eager: float | None = None
    compile_s: tuple[tuple[str, float], ...] = ()
    programs: tuple[tuple[str, int], ...] = ()
    """(fingerprint, number of Steps) of each Program."""
    fallbacks: tuple[Fallback, ...] = ()
    """The fallback ledger: what stays on the host, most worth changing first."""
    environment: tuple[tuple[str, str], ...] = ()
    created: str = ""
    report: dict[str, Any] | None = None
    """Of a Job that serves: its figures in NeuronPerf's names, each defined in docs/reference/bench-report.md."""
    trust: Trust | None = None
    """Of a check in `faithful` numerics: whether those of `fast` would have done."""
    schema: int = SCHEMA

    @property
    def pcc(self) -> float | None:
        """The lowest PCC over the outputs."""
        pccs = [c.pcc for c in self.comparisons if c.scope == "output" and c.pcc is not None]
        return min(pccs) if pccs else None

    def timing(self, what: str) -> Timing | None:
        return next((t for t in self.timings if t.what == what), None)

    def parts(self, timing: Timing) -> tuple[Timing, ...]:
        """What a total is made of; nothing for a timing that was taken as a whole."""
        return tuple(t for t in self.timings if t.what in timing.parts)


@functools.cache
def versions() -> dict[str, str]:
    """The versions that a result depends on, read without importing anything heavy."""
    packages = {}
    for package in ("proveout", "torch"):
        try:
            packages[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            packages[package] = "source tree"
    return packages


__all__ = [
    "Buffer", "Comparison", "Coverage", "DRAM", "DTYPE_BYTES", "DeviceSpec", "Do", "Explain", "Fallback",
    "Fidelity", "GraphNode", "HOST", "Job", "Judgement", "Kind", "L1", "Layout", "Limits", "Memory", "MemoryUse",
    "ModeGap", "OF_A_CHIP", "OpState", "OpStatus", "Origin", "PROMISED", "Place", "Precision", "Record", "Runtime",
    "SCHEMA", "Sequenced", "Settings", "ShardSpec", "Sharding", "Status", "StepGap", "TILE", "TensorSpec", "Timing",
    "Trace", "Tune", "Trust", "Weights", "Workload", "short_dtype", "versions",
]  # fmt: skip
