"""The values that travel between the rooms: frozen dataclasses, no torch."""

from __future__ import annotations

import functools
import math
import statistics
import types as _types
import typing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, Union

from proveout.coding import digest, hints_of, to_json
from proveout.errors import UsageError, unknown
from proveout.reasons import Reason
from proveout.serving import Configuration

SCHEMA = 2
"""Version of the Record format on disk; the store reads schema 1 too, whose times have neither interval nor verdict."""

Layout = Literal["row_major", "tile"]
Buffer = Literal["host", "dram", "l1"]
Sharding = Literal["interleaved", "height", "width", "block"]
Kind = Literal["measured", "modelled"]
Judgement = Literal["steady", "unsteady", "too few", "predicted", "not judged"]
"""What samples are worth: the median stands; it does not; there are too few to say; a model gave it; nobody looked."""

PROMISED: dict[Kind, float] = {"measured": 0.95, "modelled": 0.8}
"""How often the truth lies in a timing's interval: in that of a clock's median, and in that of a prediction."""

TILE = 32

DTYPE_BYTES: dict[str, float] = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
    "bfloat8_b": 1088 / 1024, "bfloat4_b": 576 / 1024,
}  # fmt: skip
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def short_dtype(dtype: str) -> str:
    """`float32` as `f32`, `bfloat8_b` as `bf8_b`: for printing only."""
    head = dtype.rstrip("0123456789_b") if dtype != "bool" else dtype
    return _SHORT[head] + dtype[len(head) :] if head in _SHORT else dtype


@dataclass(frozen=True)
class ShardSpec:
    """How one tensor is cut over cores: the shard's shape and the core grid (columns, rows)."""

    shape: tuple[int, int]
    grid: tuple[int, int]


@dataclass(frozen=True)
class Memory:
    """Where a tensor lies: on the host, in DRAM or in L1, interleaved over the banks or sharded."""

    buffer: Buffer = "host"
    sharding: Sharding = "interleaved"
    shard: ShardSpec | None = None

    def __str__(self) -> str:
        return self.buffer if self.sharding == "interleaved" else f"{self.buffer}/{self.sharding}"


HOST, DRAM, L1 = Memory("host"), Memory("dram"), Memory("l1")


@dataclass(frozen=True)
class TensorSpec:
    """Everything about a tensor but its numbers."""

    shape: tuple[int, ...]
    dtype: str
    layout: Layout = "row_major"
    memory: Memory = HOST

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @functools.cached_property
    def padded_shape(self) -> tuple[int, ...]:
        """The shape as stored: in tile layout the last two dimensions are whole tiles."""
        if self.layout == "row_major":
            return self.shape
        shape = (1,) * (2 - len(self.shape)) + self.shape
        return (*shape[:-2], *(-(-n // TILE) * TILE for n in shape[-2:]))

    @functools.cached_property
    def nbytes(self) -> int:
        """Bytes as stored, tile padding included."""
        return math.ceil(math.prod(self.padded_shape) * DTYPE_BYTES[self.dtype])

    @property
    def page_bytes(self) -> int:
        """One page of the buffer: a tile, or a row in row-major."""
        elements = TILE * TILE if self.layout == "tile" else (self.shape[-1] if self.shape else 1)
        return math.ceil(elements * DTYPE_BYTES[self.dtype])

    @property
    def num_pages(self) -> int:
        return -(-self.nbytes // self.page_bytes) if self.nbytes else 0

    def __str__(self) -> str:
        place = "host" if self.memory == HOST else f"{self.layout.replace('row_major', 'rm')} {self.memory}"
        return f"{short_dtype(self.dtype)}[{','.join(map(str, self.shape))}] {place}"


@dataclass(frozen=True)
class DeviceSpec:
    """What a chip is, as data. Lengths in bytes, rates in GB/s, one chip each."""

    name: str
    arch: str
    grid: tuple[int, int]
    clock_ghz: float
    l1_per_core: int
    l1_allocatable: int
    dram_banks: int
    dram_bank_bytes: int
    dram_gb_s: float
    pm_dram_gib_s: float
    """The DRAM rate that ttnn's own performance model assumes, in GiB/s."""
    dram_alignment: int
    l1_alignment: int
    pcie_write_gb_s: float
    pcie_read_gb_s: float
    chips: int = 1
    trace_region: int = 24 << 20
    """DRAM bytes per bank set aside for recorded commands where Programs are traced: our default, of the order that
    published models reserve."""

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]


@dataclass(frozen=True)
class Origin:
    """Where a Step comes from: the ATen node, the module path and the user's source line."""

    node: str = ""
    aten: str = ""
    module: str = ""
    source: str = ""


Precision = Literal["model", "bfloat16"]
Fidelity = Literal["LoFi", "HiFi2", "HiFi3", "HiFi4"]
Weights = Literal["same", "bfloat16", "bfloat8_b", "bfloat4_b"]
"""The format of a weight on the device; `same` is what `precision` gives."""


@dataclass(frozen=True)
class Settings:
    """What a user may choose about a compilation; goes in, never comes out changed."""

    precision: Precision = "model"
    weights: Weights = "same"
    """Of matrix products and convolutions."""
    overrides: tuple[tuple[str, Weights], ...] = ()
    """(pattern, format) for the weights of some: a module's path (with all inside it) or an ATen op; the last one that
    matches counts."""
    math_fidelity: Fidelity | None = None
    fallback: Literal["host", "error"] = "host"
    memory: Literal["auto", "dram"] = "auto"
    sharding: Literal["interleaved", "norms"] = "interleaved"
    """Which results are cut over the cores: none, or those of normalisations, where the plan says that it pays."""
    products: Literal["default", "configured"] = "default"
    """Whether products with a bias get a program config, which adds it inside, where the plan says that it pays."""
    parallel: Literal["auto", "data", "tensor", "none"] = "auto"
    """Over a device's several chips: the batch (`data`), the columns of linears (`tensor`), or one chip only."""
    numerics: Literal["fast", "faithful"] = "fast"
    """On `sim`: torch's own kernels, or the chip's rules bit by bit where they are known."""
    trace: bool = False
    queues: Literal[1, 2] = 1
    verify: bool = False
    pcc: float = 0.99
    seed: int = 0

    @staticmethod
    def of(value: Settings | dict[str, Any] | None) -> Settings:
        """Settings from what a user wrote; an unknown name or value is refused by name."""
        if value is None:
            return Settings()
        if isinstance(value, Settings):
            return value
        if not isinstance(value, dict):
            raise UsageError(f"settings must be a dict or proveout.Settings, not {type(value).__name__}.")
        hints = hints_of(Settings)
        for name, given in value.items():
            if name not in hints:
                raise unknown("setting", name, hints)
            _check(name, given, hints[name])
        chosen: dict[str, Any] = {k: float(v) if hints[k] is float else v for k, v in value.items()}
        if "overrides" in chosen:
            chosen["overrides"] = _pairs(chosen["overrides"])
        return Settings(**chosen)

    @property
    def packs_weights(self) -> bool:
        """Whether some weight is to be stored in a format of its own."""
        return any(dtype != "same" for dtype in (self.weights, *(d for _, d in self.overrides)))

    def weights_of(self, origin: Origin) -> Weights:
        """The format for the weight of an op that comes from there."""
        parts = origin.module.split(".") if origin.module else []
        names = [origin.aten, *(".".join(parts[: i + 1]) for i in range(len(parts)))]
        found = [dtype for pattern, dtype in self.overrides if any(fnmatchcase(n, pattern) for n in names)]
        return found[-1] if found else self.weights


OF_A_CHIP = Settings(precision="bfloat16")
"""What a proof on a chip starts with; `devices.registry.settings_for` gives those of any target."""


def _pairs(given: Any) -> tuple[tuple[str, Weights], ...]:
    """Overrides as a user wrote them: a dict, or a list of pairs."""
    items = given.items() if isinstance(given, dict) else given
    shape = "setting 'overrides' takes {pattern: format} or a list of such pairs"
    try:
        pairs = [(pattern, dtype) for pattern, dtype in items]
    except (TypeError, ValueError):
        raise UsageError(f"{shape}, not {given!r}.") from None
    for pattern, dtype in pairs:
        if not isinstance(pattern, str) or not pattern:
            raise UsageError(f"{shape}; {pattern!r} is not a module's path or an ATen op.")
        if dtype not in typing.get_args(Weights):
            raise unknown(f"format for {pattern!r} in setting 'overrides':", dtype, typing.get_args(Weights))
    return tuple(pairs)


def _check(name: str, given: object, hint: Any) -> None:
    choices = _choices(hint)
    if choices:
        if given not in choices or isinstance(given, bool):
            raise unknown(f"value for setting {name!r}:", given, map(str, choices))
    elif hint is bool and not isinstance(given, bool):
        raise UsageError(f"setting {name!r} takes True or False, not {given!r}.")
    elif hint is int and (not isinstance(given, int) or isinstance(given, bool)):
        raise UsageError(f"setting {name!r} takes a whole number, not {given!r}.")
    elif hint is float and not (isinstance(given, (int, float)) and -1 <= given <= 1):
        raise UsageError(f"setting {name!r} takes a number from -1 to 1, not {given!r}.")


def _choices(hint: Any) -> tuple[Any, ...]:
    """The values a Literal admits, also inside `Literal[…] | None`."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in (Union, _types.UnionType):
        parts = typing.get_args(hint)
        return tuple(c for p in parts for c in ((None,) if p is type(None) else _choices(p)))
    return ()


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
    """What `--weights` asked for: `random`, `pretrained` or a folder; empty for what the script itself does."""
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
        """What MLAgility calls a model with its inputs: the script's name and its hash."""
        stem = self.script.rpartition("/")[2].rpartition(".")[0] or self.name
        return f"{stem}_{self.selector}" if self.selector else stem

    @property
    def expects_failure(self) -> bool:
        return ("expect", ("fail",)) in self.labels

    @property
    def is_onnx(self) -> bool:
        """A file for ONNX Runtime, which runs it as it is, on the CPU; its parameters are not counted."""
        return self.script.endswith(".onnx")


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
    "trace",
    "explain",
    "minimize",
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
    sequence: Sequenced | None = None
    """The stages that make the ONNX file, where they are the user's own."""
    explain: Explain | None = None
    """What the error is told against where it is explained; into `artifacts`."""
    slower_than_ns: int | None = None
    """A modelled time above this is a failure where a failure is made small."""

    @property
    def key(self) -> str:
        """Names the Record: changes whenever the model, its shapes, a setting or a version that matters does."""
        w = self.workload
        apart = ["workload", "timeout_s", "artifacts", "dump", "limits", "lean"]
        younger = ("serve", "trace", "enough_s", "onnx_opset", "sequence", "explain", "slower_than_ns")  # than most
        apart += [name for name in younger if getattr(self, name) is None]
        doing = {k: v for k, v in to_json(self).items() if k not in apart}
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


OpState = Literal["converted", "host", "removed"]


@dataclass(frozen=True)
class OpStatus:
    """What became of one ATen node."""

    node: str
    aten: str
    state: OpState
    reason: str = ""
    inputs: str = ""
    module: str = ""
    source: str = ""
    cause: Reason | None = None
    """Of an op on the host: the reason's kind and facts, of which `reason` is the sentence. Old Records have none."""


@dataclass(frozen=True)
class Coverage:
    """What converted, what stayed on the host and why, over all graphs of a model."""

    ops: tuple[OpStatus, ...] = ()
    num_transfers: int = 0
    num_graphs: int = 0
    graph_breaks: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    """On a device of several chips, how each graph uses them, and why not otherwise."""

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.ops + other.ops,
            self.num_transfers + other.num_transfers,
            self.num_graphs + other.num_graphs,
            self.graph_breaks + other.graph_breaks,
            tuple(dict.fromkeys(self.parallel + other.parallel)),
        )

    @property
    def before(self) -> int:
        return len(self.ops)

    @property
    def before_unique(self) -> int:
        return len({op.aten for op in self.ops})

    @property
    def on_host(self) -> tuple[OpStatus, ...]:
        return tuple(op for op in self.ops if op.state == "host")

    @property
    def remain(self) -> int:
        return len(self.on_host)

    @property
    def remain_unique(self) -> int:
        return len({op.aten for op in self.on_host})

    @property
    def host_share(self) -> float:
        return self.remain / self.before if self.ops else 0.0

    def by_op(self) -> list[tuple[str, dict[str, int], str]]:
        """(ATen op, count per state, first reason), sorted by name: the op conversion table."""
        rows: dict[str, tuple[dict[str, int], list[str]]] = {}
        for op in self.ops:
            counts, reasons = rows.setdefault(op.aten, ({}, []))
            counts[op.state] = counts.get(op.state, 0) + 1
            if op.reason and op.state == "host":
                reasons.append(op.reason)
        return [(name, counts, reasons[0] if reasons else "") for name, (counts, reasons) in sorted(rows.items())]


@dataclass(frozen=True)
class Fallback:
    """One line of the fallback ledger: an ATen op that stays on the host for one reason, over all graphs of a model.

    Times are modelled and are those of transfers: the host is not modelled, so the op's own time is in none of them.
    """

    aten: str
    reason: str
    count: int
    fix: str
    """The cheapest thing to do about it."""
    nodes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """The user's lines."""
    num_transfers: int = 0
    """Transfers at every call that exist for these ops alone."""
    transfer_bytes: int = 0
    transfer_ns: int | None = None
    """None where the device is not modelled."""
    time_share: float | None = None
    """Of the modelled time of one call of every graph."""
    transfer_share: float = 0.0
    """Of all transfers."""
    saved_transfers: int = 0
    """Fewer transfers if these ops alone converted; negative where neighbours on the host would need more."""
    saved_ns: int | None = None
    """Less modelled time then, before the time of the kernels they would become."""
    neighbours: tuple[str, ...] = ()
    """Other ops of this ledger that share its trips to the host."""
    together_transfers: int = 0
    """Fewer transfers if the neighbours converted too."""
    together_ns: int | None = None
    cause: Reason | None = None
    """The reason's kind and facts. Old Records have none."""


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
        found = [c.pcc for c in self.comparisons if c.scope == "output" and c.pcc is not None]
        return min(found) if found else None

    def timing(self, what: str) -> Timing | None:
        return next((t for t in self.timings if t.what == what), None)

    def parts(self, timing: Timing) -> tuple[Timing, ...]:
        """What a total is made of; nothing for a timing that was taken as a whole."""
        return tuple(t for t in self.timings if t.what in timing.parts)


@functools.cache
def versions() -> dict[str, str]:
    """The versions that a result depends on, read without importing anything heavy."""
    found = {}
    for package in ("proveout", "torch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "source tree"
    return found


__all__ = [
    "Buffer", "Comparison", "Coverage", "DRAM", "DTYPE_BYTES", "DeviceSpec", "Do", "Explain", "Fallback", "GraphNode",
    "HOST", "Job", "Judgement", "Kind", "L1", "Layout", "Limits", "Memory", "MemoryUse", "ModeGap", "OpState",
    "OpStatus", "Origin", "Place", "Precision", "Record", "Runtime", "SCHEMA", "Settings", "ShardSpec", "Sharding",
    "Status", "StepGap", "TILE", "TensorSpec", "Timing", "Trace", "Trust", "Weights", "Workload", "short_dtype",
    "versions",
]  # fmt: skip
