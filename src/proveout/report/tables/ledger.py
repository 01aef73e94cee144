"""The fallback ledger in words: the columns as data, for terminal, Markdown and page alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from proveout.columns.words import NOTHING, number
from proveout.types import Fallback, Record
from proveout.words import counted

CAVEAT = (
    "Times are modelled and count transfers only: neither an op's own time on the host nor that of the kernel it "
    "would become is in them."
)


@dataclass(frozen=True)
class LedgerColumn:
    """One column of figures; what is said in sentences stands apart."""

    title: str
    show: Callable[[Fallback], str]
    explain: str


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"


def _microseconds(ns: int | None) -> str:
    return NOTHING if ns is None else f"{number(ns / 1e3)} µs"


def _saves(transfers: int, ns: int | None) -> str:
    if ns is None:
        return NOTHING
    if transfers:
        change = f"{counted(abs(transfers), 'transfer')} {'fewer' if transfers > 0 else 'more'}"
    else:
        change = "no change in transfers"
    return f"{_microseconds(abs(ns))} {'slower' if ns < 0 else 'faster'}, {change}"


COLUMNS = (
    LedgerColumn("ATen op", lambda f: f.aten, "The op that stays on the host."),
    LedgerColumn("Count", lambda f: f"{f.count:,}", "Its nodes over all graphs, for this one reason."),
    LedgerColumn("Transfers", lambda f: f"{f.num_transfers:,}", "Transfers at every call that exist for them alone."),
    LedgerColumn("Of all transfers", lambda f: _share(f.transfer_share), "Their share of all transfers."),
    LedgerColumn("Transfer time", lambda f: _microseconds(f.transfer_ns), "Their modelled time at every call."),
    LedgerColumn(
        "Of the chip's time", lambda f: _share(f.time_share),
        "That time's share of the modelled time of a call, in which the host's own part is not.",
    ),
    LedgerColumn(
        "If converted", lambda f: _saves(f.saved_transfers, f.saved_ns),
        "How much faster or slower a call would be where these ops run on the device, modelled.",
    ),
    LedgerColumn(
        "With its neighbours", lambda f: _saves(f.together_transfers, f.together_ns) if f.neighbours else "",
        "The same where the ops that share its trips to the host convert too.",
    ),
)  # fmt: skip


def figures(lines: Sequence[Fallback]) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of the columns that say something about these lines."""
    shown = [c for c in COLUMNS if any(c.show(line) not in ("", NOTHING) for line in lines)]
    return [c.title for c in shown], [[c.show(line) for c in shown] for line in lines]


def where(line: Fallback, most: int = 3) -> str:
    """The modules and the user's lines, the first few by name."""
    places = [*line.modules[:most], *(_short(source) for source in line.sources[:most])]
    more = max(len(line.modules), len(line.sources)) - most
    return ", ".join(places) + (f" and {more} more" if more > 0 else "")


def sentences(line: Fallback) -> list[tuple[str, str]]:
    """Why, where, with whom and what to do."""
    said = [
        ("why", line.reason or "no reason given"),
        ("where", where(line)),
        ("with", ", ".join(line.neighbours)),
        ("fix", line.fix),
    ]
    return [(word, text) for word, text in said if text]


def caveat(lines: Sequence[Fallback]) -> str:
    """What the times leave out; nothing where there are none."""
    return CAVEAT if any(line.transfer_ns is not None for line in lines) else ""


def heading(record: Record) -> str:
    count = sum(line.count for line in record.fallbacks)
    return f"{counted(count, 'op')} of {record.job.workload.name} stay{'s' * (count == 1)} on the host"


def _short(source: str) -> str:
    """`modeling_bert.py:99` of a whole path."""
    return PurePath(source).name
