"""The figures that each stage leaves for later stages, the report and the app: `data` of `stages/NN-name.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from proveout.bringup.testing import TestRun
from proveout.generation.messages import Agreement
from proveout.report.perf.changes import Advice, Note
from proveout.tune.greedy import Trial
from proveout.types import MemoryUse, Settings, Trust

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StageData:
    """One stage's figures; all of them can be read without torch."""

    stage: ClassVar[str]
    """The name of the stage whose they are."""


@dataclass(frozen=True)
class CardData(StageData):
    stage = "card"
    rows: Pairs
    inputs: Pairs
    outputs: Pairs
    flops: int
    bytes: int
    floor_ms: float
    parameters: int


@dataclass(frozen=True)
class ReferenceData(StageData):
    stage = "reference"
    deterministic: bool
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphData(StageData):
    stage = "graph"
    ops: int
    states: dict[str, int]
    graphs: int
    modelled_ns: int
    lowest_pcc: float | None
    graph_breaks: tuple[str, ...]
    low: tuple[str, ...]
    """Nodes whose PCC is below their threshold."""
    memory: MemoryUse

    @property
    def has_host_part(self) -> bool:
        """Whether a call is more than what the chip does: then no modelled time is that of a call."""
        return bool(self.states.get("host") or self.graph_breaks)


@dataclass(frozen=True)
class SummaryData(StageData):
    stage = "summary"
    modules: int
    classes: int
    unique_ops: int
    variations: int
    ops: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Tried:
    """One call of the model with one knob."""

    case: str
    knob: str
    pcc: float | None = None
    least: float | None = None
    origin: str = ""
    refused: str = ""


@dataclass(frozen=True)
class OpTestsData(StageData):
    stage = "op-tests"
    cases: int
    combinations: int
    refused: int
    tests: TestRun
    thresholds: tuple[str, ...]
    """Each with where it comes from."""
    tried: tuple[Tried, ...]


@dataclass(frozen=True)
class MissingOp:
    """One op on the host: why, what it costs, and the issue text that asks for it."""

    aten: str
    count: int
    reason: str
    fix: str
    modules: tuple[str, ...]
    transfers: int
    transfer_share: float
    time_share: float | None
    transfer_ns: int | None
    saved_ns: int | None
    sources: tuple[str, ...]
    torch: str
    file: str
    repro: str
    """What became of the script that shows it, or why there is none."""


@dataclass(frozen=True)
class MissingData(StageData):
    stage = "missing"
    lines: tuple[MissingOp, ...]
    verified: int


@dataclass(frozen=True)
class OutputRow:
    """One output on one set of inputs, compared."""

    inputs: str
    against: str
    output: str
    passed: bool
    reason: str
    pcc: float | None
    rel_l2: float | None
    max_abs: float | None
    max_ulp: float | None
    within: float | None
    threshold: float


@dataclass(frozen=True)
class GraphCause:
    """Where the error of one graph comes from: a picture, and sentences."""

    svg: str
    said: tuple[str, ...]


@dataclass(frozen=True)
class EndToEndData(StageData):
    stage = "end-to-end"
    outputs: tuple[OutputRow, ...]
    lowest_pcc: float | None
    accuracy: tuple[float, float] | None
    """On the chip and in eager mode."""
    nonfinite: str
    trust: Trust | None
    why: tuple[GraphCause, ...] = ()


@dataclass(frozen=True)
class OptimiseData(StageData):
    stage = "optimise"
    speedup: float
    start_ns: int
    ns: int
    held_out_pcc: float | None
    settings: Settings
    trials: tuple[Trial, ...]
    numerics: Literal["fast", "faithful"]
    freed: str
    bound_ns: int
    gap: float | None
    greedy_ns: int | None
    found_by: Literal["solver", "greedy", "start"]


@dataclass(frozen=True)
class Exactness:
    """One part's lowest PCC: on exact inputs, and on what the parts before it gave."""

    attribute: str
    alone: float | None
    accumulated: float | None
    against: str

    @property
    def lowest(self) -> float | None:
        return min((v for v in (self.alone, self.accumulated) if v is not None), default=None)

    def below(self, least: float) -> str:
        paths = [
            f"{how} {v:.5f}"
            for how, v in (("alone", self.alone), ("accumulated", self.accumulated))
            if v is not None and v < least
        ]
        return f"PCC {', '.join(paths)} below {least} when written" if paths else ""


@dataclass(frozen=True)
class ModulesData(StageData):
    stage = "modules"
    classes: int
    modules: int
    tests: TestRun
    off_device: int
    any_batch: bool
    """Whether the written model also runs on twice the batch."""
    exactness: tuple[Exactness, ...]
    own_least: dict[str, float]
    against_torch: int


@dataclass(frozen=True)
class PerfRow:
    """Alike device operations of the perf sheet."""

    op: str
    count: int
    ns: int
    share: float
    cores: int | None
    utilisation: float | None
    bound: str
    ideal_ns: float
    each_ns: int
    module: str
    shapes: str
    calibrated: bool


@dataclass(frozen=True)
class PerfData(StageData):
    stage = "perf"
    total_ns: int
    low_ns: int
    high_ns: int
    kernel_ns: int
    rows: tuple[PerfRow, ...]
    operations: int
    advice: tuple[Advice, ...]
    totals: tuple[str, ...]
    csv: str
    num_hosted: int = 0
    """Steps of a call that run on the host, and graph breaks: no time here has them."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class TraceRow:
    """One way to send a call: the optimised plan's time, and that of the written model on the modelled clock."""

    mode: str
    plan_ns: int | None
    written_ns: int | None
    trace: bool
    queues: int


@dataclass(frozen=True)
class TraceData(StageData):
    stage = "trace"
    rows: tuple[TraceRow, ...]
    tests: TestRun
    blocked: tuple[str, ...]
    """Calls that no trace of the whole model can hold."""


@dataclass(frozen=True)
class DecoderRow:
    """What so many users see. Modelled."""

    users: int
    prompt: int
    positions: int
    ttft_ns: float | None
    ttft_interval_ns: tuple[float, float] | None
    tpot_ns: float
    tpot_interval_ns: tuple[float, float] | None
    tokens_per_s: float
    slowest: float
    quickest: float
    weight_bytes: int
    cache_bytes: int
    dram_bytes: int | None
    longest_context: int | None
    largest_batch: int | None
    fits: bool
    short: str
    chips: int


@dataclass(frozen=True)
class DecoderData(StageData):
    stage = "decoder"
    rows: tuple[DecoderRow, ...]
    agreement: Agreement
    equal_tokens: int
    new_tokens: int


DATA: dict[str, type[StageData]] = {kind.stage: kind for kind in StageData.__subclasses__()}
"""By the stage's name; the report's own stage leaves none."""
