"""The perf sheet in a terminal, sorted by cost, and what would make it cheaper; and the same as JSON."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from proveout.coding import to_json
from proveout.kernels.op_codes import SUFFIX
from proveout.report.perf.advice import PLACES, notes
from proveout.report.perf.changes import Advice, Note
from proveout.report.perf.sheet import Sheet, SheetRow
from proveout.report.tables.terminal import UNLIMITED
from proveout.types import TensorSpec, short_dtype
from proveout.words import counted

MOST_LINES = 25


@dataclass(frozen=True)
class SheetLine:
    """Rows that are alike but for their place in the model."""

    rows: tuple[SheetRow, ...]

    @property
    def first(self) -> SheetRow:
        return self.rows[0]

    @property
    def ns(self) -> int:
        return sum(row.time.ns for row in self.rows)


def render(sheet: Sheet, advice: Sequence[Advice], width: int | None = None, colour: bool = False) -> str:
    """Totals, the operations sorted by cost, and the advice."""
    width = width or shutil.get_terminal_size((UNLIMITED, 24)).columns
    head = [more for line in totals(sheet) for more in _wrapped(line, width)]
    return "\n".join(
        [
            *head,
            "",
            *_table(sheet, width, colour),
            *_advice(sheet, advice, width, colour),
            *_notes(notes(sheet.recorded), width, colour),
        ]
    )


def totals(sheet: Sheet) -> list[str]:
    """What one call takes, and where it goes."""
    chip, columns, rows = sheet.chip, *sheet.chip.grid
    low, high = (sum(getattr(t, at) for t in sheet.times) for at in ("low_ns", "high_ns"))
    share = sum(t.calibrated * t.ns for t in sheet.times) / (sheet.total_ns or 1)
    ideal = sum(row.ideal_ns for row in sheet.device_rows)
    transfers = sum(row.kind == "transfer" for row in sheet.rows)
    each = " of each Program" if len(sheet.recorded) > 1 else ""
    how = [text for on, text in ((_all(sheet, "trace", True), "traced"), (_all(sheet, "queues", 2), "2 queues")) if on]
    missing = without_host(sheet.num_hosted, sheet.num_breaks)
    call = f"The chip's part of one call{each}" if missing else f"One call{each}"
    lines = [
        f"{sheet.name} on {sheet.device}: {columns}×{rows} cores at {chip.clock_ghz:g} GHz"
        f"{''.join(f', {text}' for text in how)}. All times are modelled, none is measured.",
        f"{call} takes {time(sheet.total_ns)}, between {time(low)} "
        f"and {time(high)}; {share:.0%} of kernels and transfers is calibrated.",
        f"  kernels {time(sheet.kernel_ns)} in {counted(len(sheet.device_rows), 'device operation')} "
        f"(PM ideal {time(ideal)})",
        f"  waits between them {time(sheet.wait_ns)}",
        f"  transfers {time(sheet.transfer_ns)} in {transfers}" + (", overlapped" if "2 queues" in how else ""),
    ]
    if missing:
        lines.append(f"  {missing}")
    if len(sheet.recorded) > 1:
        calls = ", ".join(f"{r.program.name} ×{r.calls}" for r in sheet.recorded)
        lines.append(f"  {len(sheet.recorded)} Programs; calls of each: {calls}")
    return lines


def without_host(num_hosted: int, num_breaks: int = 0) -> str:
    """What a time on the chip leaves out; empty where it is the whole."""
    parts = [counted(number, what) for number, what in ((num_hosted, "step"), (num_breaks, "graph break")) if number]
    return f"without {' and '.join(parts)} on the host, which `proveout benchmark` measures" if parts else ""


def faster(ratio: float, missing: str) -> str:
    """How much, and of what: where the host has a part in a call, nobody knows the ratio of whole calls."""
    return ("the chip's part " if missing else "") + f"{ratio:.2f} × faster"


def _all(sheet: Sheet, name: str, value: object) -> bool:
    return all(getattr(r.settings, name) == value for r in sheet.recorded)


def lines_of(sheet: Sheet) -> list[SheetLine]:
    """Alike rows together, the costliest first; host ops, whose time is not modelled, last."""
    groups: dict[object, list[SheetRow]] = {}
    for row in sheet.rows:
        groups.setdefault((row.code, row.inputs, row.outputs, row.fidelity, row.time), []).append(row)
    return sorted((SheetLine(tuple(rows)) for rows in groups.values()), key=lambda line: -line.ns)


FIGURES = (("%", 5), ("µs", 7), ("n", 3), ("each (from–to)", 16), ("util.", 5), ("cores", 5), ("bound", 8))
"""Title and width of each column of figures; the operation follows."""
ROOM = 40
"""Columns for an operation beside its figures; where there are fewer, it is told below them."""
BELOW = 7
BOUNDS = {"compute": "compute", "bandwidth": "memory"}
KEY = (
    "%: of kernels and transfers. each: the predicted µs of one with their interval; ~ where no measurement backs it. "
    "util.: PM ideal ÷ kernel × grid ÷ cores; above 100% where the ideal counts bytes that are not read, or few cores "
    "have all of the DRAM. bound: by ttnn's performance model."
)


def _table(sheet: Sheet, width: int, colour: bool) -> list[str]:
    lines = lines_of(sheet)
    busy = sum(line.ns for line in lines) or 1
    indent = sum(size + 1 for _, size in FIGURES) + 1
    narrow = width - indent < ROOM
    head = " ".join(f"{title:>{size}}" for title, size in FIGURES)
    text = [_styled(f"{head}  operation", "1", colour), "─" * min(width, UNLIMITED)]
    for line in lines[:MOST_LINES]:
        figures = " ".join(f"{cell:>{size}}" for cell, (_, size) in zip(_figures(line, sheet, busy), FIGURES))
        row = line.first
        code = row.code.removesuffix(SUFFIX)
        if narrow:
            text.append(f"{figures}  {code}".rstrip())
            for said, style in ((_operands(row), ""), (_where(line.rows), "2")):
                text += [
                    " " * BELOW + _styled(more, style, colour and bool(style)) for more in _wrapped(said, width - BELOW)
                ]
            continue
        what = _wrapped(f"{code} {_operands(row)}", width - indent)
        text.append(f"{figures}  {what[0]}".rstrip())
        text += [" " * indent + more for more in what[1:]]
        text += [" " * indent + _styled(place, "2", colour) for place in _wrapped(_where(line.rows), width - indent)]
    rest = lines[MOST_LINES:]
    if rest:
        share = sum(line.ns for line in rest) / busy
        text.append(f"{len(rest)} more kinds of operation take {share:.1%} together; --json and the CSV have all.")
    return [*text, "", *_wrapped(KEY, width)]


def _figures(line: SheetLine, sheet: Sheet, busy: int) -> tuple[str, ...]:
    row, count = line.first, str(len(line.rows))
    if row.kind == "host":
        return "", "", count, "not modelled", "", "", row.kind
    used, mark = row.utilisation(sheet.chip), "" if row.time.calibrated else "~"
    return (
        f"{100 * line.ns / busy:.1f}",
        micro(line.ns),
        count,
        f"{mark}{micro(row.time.ns)} ({rough(row.time.low_ns)}–{rough(row.time.high_ns)})",
        "" if used is None else f"{used:.0%}" if used <= 1 else ">100%",
        str(row.time.cores) if row.kind == "device" else "",
        BOUNDS.get(row.bound, row.kind),
    )


def _advice(sheet: Sheet, advice: Sequence[Advice], width: int, colour: bool) -> list[str]:
    if not advice:
        return ["", "None of the changes we tried would save time."]
    head = f"What would save time, each on top of those above it (plans made again, from {time(sheet.total_ns)}):"
    columns = f"{'#':>3} {'saves':>8} {'then':>8}  change"
    text = ["", *_wrapped(head, width), _styled(columns, "1", colour), "─" * min(width, UNLIMITED)]
    for number, line in enumerate(advice, 1):
        alone = "" if line.alone_ns else " Alone it saves nothing."
        words = [
            *_wrapped(f"{line.change}: {line.how}.{alone}", width - 23),
            *_wrapped(_listed(line.places), width - 23),
            *_wrapped(f"first: {line.calls[0]}" if line.calls else "", width - 23),
        ]
        text.append(f"{number:>3} {time(line.saves_ns):>8} {time(line.then_ns):>8}  {words[0]}")
        text += [" " * 23 + more for more in words[1:]]
    return text


def _notes(listed: Sequence[Note], width: int, colour: bool) -> list[str]:
    if not listed:
        return []
    text = ["", "What takes time that no setting saves:", _styled(f"{'at most':>12}  what, and why", "1", colour)]
    for note in listed:
        why = f": {note.why}" if note.why else ""
        what, *more = [*_wrapped(f"{note.what}{why}.", width - 14), *_wrapped(_listed(note.places), width - 14)]
        text += [f"{time(note.takes_ns):>12}  {what}", *(" " * 14 + line for line in more)]
    return text


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width; what is longer than a line, as a module's path may be, breaks at its dots."""
    indent = " " * (len(text) - len(text.lstrip()))
    lines: list[str] = []
    for word in text.split():
        for part in [word] if len(word) <= width else _at_dots(word):
            glue = "" if part is not word and lines and lines[-1].endswith(".") else " "
            if lines and len(lines[-1]) + len(glue) + len(part) <= width:
                lines[-1] += glue + part
            elif part:
                lines.append(indent + part)
    return lines


def _at_dots(word: str) -> list[str]:
    *parts, last = word.split(".")
    return [*(f"{part}." for part in parts), last]


def _styled(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour and text else text


def _listed(places: Sequence[str]) -> str:
    shown = ", ".join(dict.fromkeys(_starred(p) for p in places[: 4 * PLACES]))
    return f"in {shown}" if shown else ""


def _starred(module: str) -> str:
    first, *rest = module.split(".")
    return ".".join([first, *("*" if part.isdecimal() else part for part in rest)])


def _operands(row: SheetRow) -> str:
    """`64×128 · 128×384 → 64×384 bf16 l1, HiFi2`."""
    inputs = " · ".join(_counted([_shape(spec) for spec in row.inputs]))
    dtypes = "/".join(dict.fromkeys(short_dtype(s.dtype) for s in (*row.inputs, *row.outputs)))
    places = "/".join(dict.fromkeys(s.memory.buffer for s in (*row.inputs, *row.outputs)))
    results = " · ".join(_counted([_shape(spec) for spec in row.outputs]))
    return f"{inputs} → {results} {dtypes} {places}{f' {row.fidelity}' if row.fidelity else ''}"


def _counted(shapes: Sequence[str]) -> list[str]:
    """Equal neighbours once, with their number."""
    runs = [(shape, len(list(same))) for shape, same in itertools.groupby(shapes)]
    return [shape if count == 1 else f"{count} of {shape}" for shape, count in runs]


def _shape(spec: TensorSpec) -> str:
    shape = spec.shape
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return "×".join(map(str, shape)) or "scalar"


def _where(rows: Sequence[SheetRow]) -> str:
    """The modules, with a star for what counts through a list of them, and the user's line."""
    modules = list(dict.fromkeys(_starred(r.step.origin.module) for r in rows if r.step.origin.module))
    sources = list(dict.fromkeys(_line(r.step.origin.source) for r in rows if r.step.origin.source))
    shown = ", ".join(modules[:PLACES]) + (" …" if len(modules) > PLACES else "")
    more = f" +{len(sources) - 1}" if len(sources) > 1 else ""
    return " ".join(filter(None, (shown, f"{sources[0]}{more}" if sources else "")))


def _line(source: str) -> str:
    return PurePath(source).name


def signed(ns: int) -> str:
    """A saving, which may be none at all."""
    return time(ns) if ns >= 0 else f"-{time(-ns)}"


def time(ns: float) -> str:
    """A time in the unit that suits it, three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e3:.3g} µs"


def micro(ns: float) -> str:
    """Microseconds, three digits or all before the point: `0.48`, `20.6`, `1520`."""
    return rough(ns) if ns >= 1e5 or ns < 1e3 else f"{ns / 1e3:.3g}"


def rough(ns: float) -> str:
    """Microseconds, two digits or all before the point: `0.48`, `6.8`, `38`, `1520`."""
    return f"{ns / 1e3:.0f}" if ns >= 1e4 else f"{ns / 1e3:.2g}"


def document(sheet: Sheet, advice: Sequence[Advice]) -> dict[str, Any]:
    """The sheet and the advice as JSON values; `kind` says that no time in it is measured."""
    return {
        "name": sheet.name,
        "device": sheet.device,
        "kind": "modelled",
        "total_ns": sheet.total_ns,
        "low_ns": sum(t.low_ns for t in sheet.times),
        "high_ns": sum(t.high_ns for t in sheet.times),
        "kernel_ns": sheet.kernel_ns,
        "wait_ns": sheet.wait_ns,
        "transfer_ns": sheet.transfer_ns,
        "programs": [{"name": r.program.name, "calls": r.calls, "settings": r.settings} for r in sheet.recorded],
        "rows": [_row(row, sheet) for row in sheet.rows],
        "advice": [to_json(line) for line in advice],
        "notes": [to_json(note) for note in notes(sheet.recorded)],
    }


def _row(row: SheetRow, sheet: Sheet) -> dict[str, Any]:
    timed = row.kind != "host"
    return {
        "program": row.program,
        "kind": row.kind,
        "op": row.code,
        "call": row.step.kernel,
        "inputs": [str(spec) for spec in row.inputs],
        "outputs": [str(spec) for spec in row.outputs],
        "fidelity": row.fidelity,
        "ns": row.time.ns if timed else None,
        "low_ns": row.time.low_ns if timed else None,
        "high_ns": row.time.high_ns if timed else None,
        "calibrated": row.time.calibrated if timed else None,
        "wait_ns": row.wait_ns,
        "ideal_ns": row.ideal_ns if row.kind == "device" else None,
        "utilisation": row.utilisation(sheet.chip),
        "bound": row.bound,
        "cores": row.time.cores or None,
        "module": row.step.origin.module,
        "source": row.step.origin.source,
    }
