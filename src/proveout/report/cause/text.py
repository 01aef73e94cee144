"""An explanation for the terminal: what to know, the ops that matter, the modules, the outputs."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from proveout.cause.findings import CLASSES, ULP_BINS, Closeness, Contribution, Explained, Explanation, walk

MOST_OPS, MOST_MODULES = 10, 14
UNLIMITED = 250
"""Columns to use where there is no terminal to ask."""
LEAST = 0.005
"""Part of the whole below which a module is not listed."""


def text(name: str, explained: Explained) -> str:
    """All of it, most important first."""
    lines = [name]
    for graph in explained.graphs:
        lines += ["", *_graph(graph, len(explained.graphs) > 1, [one.output for one in explained.closeness])]
    lines += ["", *_outputs(explained.closeness)] if explained.closeness else []
    lines += [line for note in explained.notes for line in _wrapped(note)]
    return "\n".join(lines)


def _graph(graph: Explanation, named: bool, outputs: Sequence[str]) -> Iterator[str]:
    of = f"{graph.graph}: " if named else ""
    yield from _wrapped(f"{of}relative L2 {percent(graph.rel_l2)}: {graph.found}, against {graph.against}", "")
    yield from (line for sentence in graph.said for line in _wrapped(sentence))
    if not graph.whole:
        return
    shown = [part for part in graph.contributions if abs(part.share) > 1e-9 * graph.whole][:MOST_OPS]
    yield ""
    yield from table(
        ("share", "own", "interaction", "adds", "expected", "gain", "", "op", "module"),
        [_op(part, graph.whole) for part in shown],
        last=2,
    )
    rest = [part for part in graph.contributions if part not in shown]
    if rest:
        yield f"  {sum(p.share for p in rest) / graph.whole:7.1%}  in {ops(sum(p.ops for p in rest), 'other ')}"
    same = f"{ops(graph.exact_ops)} give{'s' * (graph.exact_ops == 1)} the same either way"
    yield f"  {same}. It took {graph.passes:.1f} forward passes."
    yield ""
    yield "  error budget by module"
    for depth, branch in [b for b in walk(graph.tree) if abs(b[1].share) > LEAST * graph.whole][:MOST_MODULES]:
        part = branch.share / graph.whole
        yield f"  {part:7.1%} {bar(part):20} {'  ' * depth}{branch.path} ({ops(branch.ops)})"
    yield ""
    yield from _elements(graph, shown, outputs)


def _elements(graph: Explanation, parts: Sequence[Contribution], outputs: Sequence[str]) -> Iterator[str]:
    """What the ops that matter most do to each output and kind of element; outputs as the model names them, where the
    graph has all of them."""
    yield "  what they do to the outputs, by the size of the elements"
    rows = [
        (
            outputs[place] if len(outputs) == len(part.outputs) else output.output,
            *(f"{share / graph.whole:.1%}" for share in output.classes),
            f"{output.sign_flips:+d}",
            f"{output.argmax_changes:+d}",
            f"{part.op} %{part.value}" if part.value and part.ops == 1 else part.op,
        )
        for place, output_of in enumerate(zip(*(part.outputs for part in parts[:3])))
        for part, output in zip(parts, output_of)
    ]
    yield from table(("output", *CLASSES, "sign flips", "argmax", "op"), rows, last=1)


def _op(part: Contribution, whole: float) -> tuple[str, ...]:
    return (
        f"{part.share / whole:.1%}",
        f"{part.own / whole:.1%}",
        f"{part.interaction / whole:+.1%}",
        percent(part.adds) if part.adds is not None else "",
        f"{percent(part.expected)}{_mark(part)}" if part.expected else "",
        f"{part.gain:.2f}" if part.gain is not None else "",
        part.role,
        part.op,
        ", ".join(filter(None, (part.side, part.origin.module, part.origin.source.rpartition("/")[2]))),
    )


def _mark(part: Contribution) -> str:
    return f", {part.stands_out.replace(' what is expected', '').replace(' throughout', '')} !" * part.is_suspect


def _outputs(outputs: Sequence[Closeness]) -> Iterator[str]:
    rows = [
        (
            one.output,
            f"{one.pcc:.7f}" if one.pcc is not None else "undefined",
            percent(one.rel_l2) if one.rel_l2 is not None else "",
            f"{one.within:.1%}" if one.within is not None else "",
            f"{one.top1:.1%} / {one.top5:.1%}" if one.top1 is not None and one.top5 is not None else "",
            str(one.sign_flips),
            " ".join(map(str, one.ulps)),
        )
        for one in outputs
    ]
    bins = " ".join(f"≤{b}" for b in ULP_BINS)
    yield from table(("output", "PCC", "rel. L2", "within", "top 1 / 5", "flips", f"ULP {bins} >"), rows, last=1)
    for one in outputs:
        yield from (line for warning in one.warnings for line in _wrapped(f"{one.output}: {warning}", "  ! "))


def _wrapped(text: str, first: str = "  ") -> list[str]:
    """A sentence in lines that fit the terminal."""
    return textwrap.wrap(text, columns(), initial_indent=first, subsequent_indent=" " * max(len(first), 2))


def columns() -> int:
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], last: int = 0) -> list[str]:
    """Columns as wide as what is in them; in a narrow terminal the last ones of a row go below it."""
    widths = [max(len(cell) for cell in column) for column in zip(titles, *rows)]
    lines = [
        f"  {'  '.join(cell.ljust(width) for cell, width in zip(row, widths))}".rstrip() for row in (titles, *rows)
    ]
    if not last or max(map(len, lines)) <= columns():
        return lines
    first = table(titles[:-last], [row[:-last] for row in rows])
    below = (f"      {'  '.join(filter(None, row[-last:]))}" for row in (titles, *rows))
    return [line for pair in zip(first, below) for line in pair]


def ops(count: int, kind: str = "") -> str:
    return f"{count} {kind}op{'s' * (count != 1)}"


def percent(value: float) -> str:
    """A relative error, with two figures however small it is."""
    return f"{value:.2%}" if value >= 0.001 else f"{100 * value:.2g}%"


def bar(part: float, width: int = 20) -> str:
    return "█" * max(0, min(width, round(part * width)))
