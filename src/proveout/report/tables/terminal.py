"""The report as a table in a terminal, whatever its width."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from proveout.columns.column import Shown
from proveout.columns.table import Row
from proveout.columns.words import NOTHING, STATUS, number, numbers, status_words
from proveout.report.tables.ledger import caveat, figures, heading, sentences
from proveout.report.tables.rows import Report, columns_for, interval, sentence, unreadable_lines
from proveout.types import Record
from proveout.words import counted

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

UNLIMITED = 250
"""Columns to use where there is no terminal to ask."""
COLOURS = {"passed": "green", "compiled": "cyan", "failed": "red", "expected_failure": "yellow", "partial": "yellow"}


def render(report: Report, width: int | None = None, colour: bool = False) -> str:
    """The whole report: table, reasons, unreadable files."""
    rows = [sentence(report)] if len(report.rows) > 1 else []
    parts = [table(report.rows, width, colour), *rows, *reasons(report.rows), *unreadable_lines(report)]
    return "\n".join(part for part in parts if part)


def table(rows: Sequence[Row], width: int | None = None, colour: bool = False) -> str:
    """One line a Record; the least important columns go first when the terminal is narrow."""
    if not rows:
        return ""
    width = width or shutil.get_terminal_size((UNLIMITED, 24)).columns
    columns, common = columns_for("terminal", rows), ""
    shown, hidden = _fitting(columns, rows, width, narrow=False)
    narrow = bool(hidden)
    if narrow:
        columns, common = _told_once(columns, rows)
        shown, hidden = _fitting(columns, rows, width, narrow)
    drawn = _table()
    for column in shown:
        drawn.add_column(
            column.short,
            justify="right" if column.numeric else "left",
            overflow="fold",
            max_width=_limit(column, rows, width, narrow),
        )
    for flat in rows:
        drawn.add_row(*(_cell(column, flat) for column in shown))
    below = [
        common,
        DIFFERENT if any(c.key in ("ops_before", "ops_remain") for c in shown) else "",
        f"Hidden (terminal too narrow): {', '.join(c.short for c in hidden)}." if hidden else "",
    ]
    return "\n".join([_print(drawn, width, colour), *filter(None, below)])


DIFFERENT = "Ops in parentheses: how many different ones."


def _told_once(columns: Sequence[Shown], rows: Sequence[Row]) -> tuple[list[Shown], str]:
    """Columns that repeat nothing, and the line that says it once: what all rows have in common of device, numbers and
    kinds of times."""
    device = next(c for c in columns if c.key == "device")
    kept = [_kind_in_title(c, rows) for c in columns]
    if len({device.value(flat) for flat in rows}) == 1:
        kept.remove(device)
        return kept, f"{'All rows: ' if len(rows) > 1 else 'On '}{device.value(rows[0])}."
    if len({numbers(flat) for flat in rows}) == 1:
        kept[kept.index(device)] = replace(device, show=lambda flat: flat.device)
        return kept, f"All rows: {numbers(rows[0])}."
    return kept, ""


def _kind_in_title(column: Shown, rows: Sequence[Row]) -> Shown:
    """Where all times of a column are measured, or all modelled, its title says so."""
    timed = [flat for flat in rows if column.kind and column.value(flat) != column.empty]
    kinds = {str(getattr(flat, column.kind)) for flat in timed}
    return replace(column, short=f"{column.short} ({kinds.pop()})", kind="") if len(kinds) == 1 else column


def reasons(rows: Sequence[Row]) -> list[str]:
    """Why each Record that did not simply pass is as it is."""
    return [f"{STATUS[flat.status].mark} {flat.model} on {flat.device}: {flat.reason}" for flat in rows if flat.reason]


def modelled_time(record: Record) -> list[str]:
    """A predicted time with its interval, and how much of it measurements back; the chip's part of a call is none."""
    return [
        f"  {record.job.workload.name} on {record.job.device}: "
        f"{MODELLED.get(timing.what, 'modelled')} {number(timing.median_ns / 1e6)} ms, "
        f"between {interval(timing, ' and ')} ms; "
        f"{_backing(dict(timing.conditions).get('calibrated', 'no'))}"
        for timing in record.timings
        if timing.kind == "modelled" and timing.interval_ns is not None
    ]


def _backing(calibrated: str) -> str:
    """How much of a prediction rests on kernels whose predictions were held against published measurements."""
    share = {"no": "none", "yes": "all"}.get(calibrated, calibrated.partition(" ")[0])
    return f"{share} of it calibrated on published measurements"


MODELLED = {"device": "the chip's part of a call, without the host's: modelled"}
"""What is said of a modelled time that is not a call's."""


def doubts(records: Sequence[Record]) -> list[str]:
    """What speaks against the measured times: a line each where they are few, else how many there are of which kind.
    How long the simulator itself took is in none of the terminal's columns."""
    timings = ((record, timing) for record in records for timing in record.timings)
    weak = [(record, timing) for record, timing in timings if timing.why and timing.what != "simulation"]
    if len(weak) <= FEW:
        named = ((f"{r.job.workload.name} on {r.job.device}", t) for r, t in weak)
        return [f"  {name}: the {t.what} time is unreliable: {t.why}." for name, t in named]
    verdicts = Counter(timing.verdict for _, timing in weak)
    kinds = ", ".join(f"{count} {VERDICTS.get(v, v)}" for v, count in verdicts.most_common())
    told = f"{len(weak)} measured times are unreliable ({kinds})"
    return [f"  {told}. Measure longer (--duration 30); `proveout report` has the reason of each."]


VERDICTS = {"too few": "with too few samples"}
"""A verdict as the end of "12 …"; the others are words of their own."""
FEW = 4
"""So many doubtful times are told one by one."""


def chips_used(record: Record) -> list[str]:
    """How each graph uses a device's several chips."""
    return [f"  {note}" for note in record.coverage.parallel]


def ledger(record: Record, colour: bool = False) -> list[str]:
    """The ops that no kernel serves, ranked, with what they cost, the reason and the cheapest fix."""
    lines = record.fallbacks
    if not lines:
        return breaks(record)
    titles, cells = figures(lines)
    numbered = [[str(rank), *row] for rank, row in enumerate(cells, 1)]
    said = [
        f"{f'{rank}.' if index == 0 else '':4}{word:6}{text}"
        for rank, line in enumerate(lines, 1)
        for index, (word, text) in enumerate(sentences(line))
    ]
    head = f"{heading(record)}, most worth changing first:"
    return ["", head, grid(["#", *titles], numbered, colour), *said, *filter(None, [caveat(lines)]), *breaks(record)]


def breaks(record: Record) -> list[str]:
    """Where PyTorch cut the model: what runs there is in no graph, and everything that lives crosses to the host."""
    graph_breaks = record.coverage.graph_breaks
    heading = f"{counted(len(graph_breaks), 'graph break')}; what runs there is in no graph and not counted:"
    return ["", heading, *(f"    {place}" for place in graph_breaks)] if graph_breaks else []


def grid(titles: Sequence[str], rows: Sequence[Sequence[object]], colour: bool = False) -> str:
    """Any other small table, in the same dress."""
    from rich.text import Text

    width = shutil.get_terminal_size((UNLIMITED, 24)).columns
    texts = [["" if cell is None else str(cell) for cell in cells] for cells in rows]
    widths = _widths(titles, texts, width)
    if widths is None:
        return _stacked(titles, texts)
    drawn = _table()
    for index, (title, columns) in enumerate(zip(titles, widths)):
        kinds = {type(cells[index]) for cells in rows} - {type(None)}
        numeric = bool(kinds) and kinds <= {int, float}
        justify: Literal["left", "right"] = "right" if numeric else "left"
        drawn.add_column(title, justify=justify, overflow="fold", width=columns)
    for cells in texts:
        drawn.add_row(*map(Text, cells))
    return _print(drawn, width, colour)


def _widths(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """How wide each column is so that all fit and no word is broken: what can wrap most is narrowed first; None where
    they cannot fit."""
    from rich.cells import cell_len

    whole = ("Hash", "Key")  # there to be copied
    columns = list(zip(titles, *rows))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [n if column[0] in whole else max(map(_longest_word, column)) for n, column in zip(widths, columns)]
    while sum(widths) + 3 * len(widths) > width:
        index = max(range(len(widths)), key=lambda i: widths[i] - least[i])
        if widths[index] == least[index]:
            return None
        widths[index] -= 1
    return widths


def _stacked(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that is too wide for the terminal, a line a cell: no word is broken and nothing is left out."""
    room = max(map(len, titles[1:]), default=0)
    lines = []
    for head, *cells in rows:
        names = titles[1:]
        if titles[0] == "#":
            head, names, cells = f"{head}. {names[0]}  {cells[0]}", names[1:], cells[1:]
        lines.append(f"{titles[0]}: {head}" if titles[0] not in ("", "#") else head)
        lines += [f"  {title:{room}}  {cell}".rstrip() for title, cell in zip(names, cells) if cell]
    return "\n".join(lines)


def _longest_word(text: str) -> int:
    from rich.cells import cell_len

    return max((cell_len(word) for word in text.split()), default=0)


def _cell(column: Shown, flat: Row) -> Text:
    from rich.text import Text

    if column.key == "status":
        return Text(status_words(flat).words, style=COLOURS[flat.status])
    text = column.text(flat)
    return Text(text, style="dim" if text == NOTHING else "")


def _limit(column: Shown, rows: Sequence[Row], width: int, narrow: bool) -> int | None:
    """Where a column's text wraps, between words only; None where it may not."""
    limits = {"model": max(16, width // 4), "status": 10, "device": 13 if narrow else None}
    limit = limits.get(column.key, TIME if narrow and column.key.endswith("_ms") else None)
    texts = (column.short, *(_cell(column, flat).plain for flat in rows))
    return limit and max(limit, *map(_longest_word, texts))


TIME = 14
"""Columns for a time in a narrow terminal; its kind goes below it."""


def _fitting(
    columns: Sequence[Shown], rows: Sequence[Row], width: int, narrow: bool
) -> tuple[list[Shown], list[Shown]]:
    """The columns that fit, and those that do not."""
    from rich.cells import cell_len

    def needs(column: Shown) -> int:
        longest = max(cell_len(text) for text in (column.short, *(_cell(column, flat).plain for flat in rows)))
        return 3 + min(longest, _limit(column, rows, width, narrow) or longest)

    shown, hidden = list(columns), []
    while sum(map(needs, shown)) > width and any(c.drop for c in shown):
        least = min((c for c in shown if c.drop), key=lambda c: c.drop)
        shown.remove(least)
        hidden.append(least)
    return shown, hidden


def _table() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")


def _print(renderable: Table, width: int, colour: bool) -> str:
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="standard" if colour else None)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines())
