"""What a report says, whatever its format: the rows, the columns as data and the words for each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from proveout.errors import UsageError
from proveout.store import Row, Store, row
from proveout.types import OpState, Record, Status

NOTHING = "N/A"
Place = Literal["terminal", "markdown", "html"]


@dataclass(frozen=True)
class Report:
    """The Records of a store, their flat rows in the same order, and the files nobody could read."""

    records: tuple[Record, ...]
    rows: tuple[Row, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    """(file below the store's folder, reason)."""


def load(store: Store) -> Report:
    """Read a whole store; an empty one is a UsageError that says how to fill it."""
    records, bad = store.records()
    if not records and not bad:
        raise UsageError(f"there are no results in {store.folder}. Run: proveout benchmark SCRIPT.py")
    unreadable = tuple((path.relative_to(store.folder).as_posix(), reason) for path, reason in bad)
    return Report(tuple(records), tuple(map(row, records)), unreadable)


@dataclass(frozen=True)
class StatusWords:
    """How a status is shown; never by colour alone."""

    symbol: str
    """In Markdown, where an emoji is a picture."""
    mark: str
    """Elsewhere: one character that every font has."""
    words: str


STATUS: dict[Status, StatusWords] = {
    "passed": StatusWords("✅", "✓", "passed"),
    "failed": StatusWords("✘", "✘", "failed"),
    "expected_failure": StatusWords("✘ (expected)", "✘", "expected failure"),
    "partial": StatusWords("◐ (partial)", "◐", "partial"),
}

NOT_RUN = StatusWords("— (not run)", "✓", "compiled")
"""A dry run that succeeded: nothing ran, so there is no run success to tell."""


def status_words(flat: Row) -> StatusWords:
    """How a Record's status is shown."""
    return NOT_RUN if flat["status"] == "passed" and flat["did"] == "compile" else STATUS[flat["status"]]


OP_STATE: dict[OpState, StatusWords] = {
    "converted": StatusWords("✅", "✓", "converted"),
    "removed": StatusWords("✂", "✂", "removed"),
    "host": StatusWords("✘", "✘", "host"),
}


@dataclass(frozen=True)
class Column:
    """One column of the table of models."""

    title: str
    short: str
    key: str
    """The flat column it sorts by."""
    show: Callable[[Row], str | None]
    explain: str
    numeric: bool = True
    kind: str = ""
    """The flat column that says whether the value is measured or modelled."""
    drop: int = 0
    """The order in which a narrow terminal gives columns up; 0 keeps it."""
    places: tuple[Place, ...] = ("terminal", "markdown", "html")
    empty: str = NOTHING
    distinguishes: bool = False
    """It is there to tell rows apart, and left out where all have the same value."""

    def value(self, flat: Row) -> str:
        """The value alone, or what stands for none."""
        return self.show(flat) or self.empty

    def text(self, flat: Row) -> str:
        """The value with its kind: `0.42 (modelled)`."""
        value = self.value(flat)
        return f"{value} ({flat[self.kind]})" if self.kind and value != self.empty else value


def number(value: float | None, digits: int = 3) -> str | None:
    """A figure as people read it: two decimals from one on, significant digits below."""
    if value is None:
        return None
    if value == 0:
        return "0"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.{digits}g}"


def pcc_text(value: float | None) -> str | None:
    """A PCC to six places, where a seventh says nothing in bfloat16; never rounded up to a perfect 1."""
    if value is None:
        return None
    return f"{min(value, 0.999999):.6f}" if value < 1 else "1"


def script_name(flat: Row) -> str:
    """A script as seen from the folder the report is made in, where it lies below it: reports travel."""
    script = PurePath(flat["script"])
    return script.relative_to(Path.cwd()).as_posix() if script.is_relative_to(Path.cwd()) else str(script)


def called(flat: Row) -> str:
    """A model's name and what its script was given, which may be another size: `bert --small`."""
    return f"{flat['model']} {flat['script_args']}".rstrip()


def corpus(flat: Row) -> str:
    """The folder that a model's script lies in."""
    return PurePath(flat["script"]).parent.name


def count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _ops(which: str) -> Callable[[Row], str | None]:
    def show(flat: Row) -> str | None:
        total = flat[f"ops_{which}"]
        return None if total is None else f"{total:,} ({flat[f'ops_{which}_unique']:,})"

    return show


def _throughput(flat: Row) -> str | None:
    return number(1e3 / flat["compiled_ms"]) if flat["compiled_ms"] else None


def _percent(flat: Row) -> str | None:
    return None if flat["accuracy"] is None else f"{flat['accuracy']:.2f}"


def _fits(flat: Row) -> str | None:
    return None if flat["fits"] is None else ("yes" if flat["fits"] else "no")


def _megabytes(flat: Row) -> str | None:
    return number(flat["l1_peak_bytes"] / 1e6) if flat["l1_peak_bytes"] is not None else None


def numbers(flat: Row) -> str:
    """What was chosen about numbers: `bfloat16 fast`, `bfloat16 bfloat8_b weights faithful`."""
    weights = f"{flat['weights']} weights" if flat["weights"] != "same" else None
    runtime = flat["runtime"] if flat["runtime"] != "proveout" else None
    return " ".join(filter(None, (flat["precision"], weights, flat["numerics"], runtime)))


COLUMNS = [
    Column(
        "Model", "Model", "model", called,
        "Name of the model, and the arguments that its script was given; `--small` is a reduced size, not the "
        "published one.", numeric=False,
    ),
    Column(
        "Corpus", "Corpus", "script", corpus,
        "The folder of the model's script.", numeric=False, drop=1, distinguishes=True,
    ),
    Column(
        "Device", "Device", "device", lambda r: f"{r['device']} {numbers(r)}",
        "The device the model was compiled for, and its numbers: precision (`model` keeps the model's own dtypes), the "
        "weights' format where it is another, and on `sim` the numerics: `fast` or `faithful` (bit by bit). "
        "What ran it, where that was not our compiler: `eager`, `inductor` or `ort`.",
        numeric=False, drop=9,
    ),
    Column(
        "Run Success", "Status", "status", lambda r: status_words(r).symbol,
        "✅ it compiled, ran, and every output is within its PCC threshold; ✘ it did not, see Reason; ✘ (expected) "
        "it failed and its script is labelled `expect::fail`; ◐ (partial) it was interrupted; — (not run) it was "
        "compiled only.", numeric=False,
    ),
    Column(
        "Parameters", "Params", "parameters", lambda r: count(r["parameters"]),
        "Number of the model's parameters.", drop=3, places=("terminal", "html"),
    ),
    Column(
        "Torch Ops Before (Unique Ops)", "Ops before", "ops_before", _ops("before"),
        "ATen operations in all graphs of the model before conversion; in parentheses, the different ones.",
        drop=4,
    ),
    Column(
        "Torch Ops Remain (Unique Ops)", "Ops remain", "ops_remain", _ops("remain"),
        "ATen operations that stay on the host after conversion; in parentheses, the different ones.",
        drop=7,
    ),
    Column(
        "To/From Device Ops", "Transfers", "transfers", lambda r: count(r["transfers"]),
        "Transfers between host and device at every call.", drop=5,
    ),
    Column(
        "Original Run Time (ms)", "Original ms", "original_ms", lambda r: number(r["original_ms"]),
        "Median time of one call of the original model in eager PyTorch on this machine's CPU.",
        kind="original_kind", drop=6,
    ),
    Column(
        "Compiled Run Time (ms)", "Compiled ms", "compiled_ms", lambda r: number(r["compiled_ms"]),
        "Median time of one call of the compiled model on the device. `measured` comes from a clock, "
        "`modelled` from the embedded model of the chip; a modelled time is a prediction.",
        kind="compiled_kind", drop=10,
    ),
    Column(
        "Calls per Second", "Calls/s", "compiled_ms", _throughput,
        "One second divided by the compiled run time; of the same kind as that.",
        kind="compiled_kind", drop=1, places=("terminal",),
    ),
    Column(
        "PCC", "PCC", "pcc", lambda r: pcc_text(r["pcc"]),
        "Pearson correlation of the compiled model's outputs with the reference; the lowest of all outputs.",
        drop=8,
    ),
    Column(
        "Accuracy (%)", "Accuracy %", "accuracy", _percent,
        "Accuracy of the compiled model on the labelled data of its script, where it has any, in per cent.", drop=2,
    ),
    Column(
        "Fits in memory", "Fits", "fits", _fits,
        "Whether the allocator's simulation could place every tensor of the Program on the device.",
        numeric=False, drop=2,
    ),
    Column(
        "Peak SRAM usage (in MB)", "SRAM MB", "l1_peak_bytes", _megabytes,
        "Most on-chip memory (L1 of all cores) in use at once, with tile padding, in 10⁶ bytes; modelled.",
        drop=3,
    ),
    Column(
        "Reason", "Reason", "reason", lambda r: r["reason"],
        "Why a run failed, or what else there is to say about it.", numeric=False, empty="",
        places=("markdown",),
    ),
]  # fmt: skip
"""The table of models. Terminal and page tell the reason in lines of its own."""


def columns_for(place: Place, rows: Sequence[Row]) -> list[Column]:
    """The columns of one place for these rows. Markdown has the empty ones too: there the columns are a format."""
    return [
        c
        for c in COLUMNS
        if place in c.places
        and (place == "markdown" or any(c.value(flat) != NOTHING for flat in rows))
        and not (c.distinguishes and len({c.value(flat) for flat in rows}) < 2)
    ]


def counts(report: Report) -> dict[Status, int]:
    """How many Records have each status, in the order of `STATUS`."""
    return {status: sum(r.status == status for r in report.records) for status in STATUS}


def unreadable_lines(report: Report) -> list[str]:
    """The files that could not be read, one line each below a heading; nothing when all could."""
    bad = report.unreadable
    if not bad:
        return []
    head = "1 file could not be read:" if len(bad) == 1 else f"{len(bad)} files could not be read:"
    return [head, *(f"{path} {reason}" for path, reason in bad)]
