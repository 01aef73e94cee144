"""The tracer's reports, made from raw dumps: how often each op occurs, and how large what it reads and writes is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from proveout.errors import EnvironmentFault
from proveout.report.cells import render
from proveout.report.drawing.histogram import histogram
from proveout.store import write_text
from proveout.tracer.raw import Node, Phase, TracedModel

PHASES: dict[str, Phase] = {"fw": "forward", "bw": "backward"}
SIDES = ("input", "output")


def write_reports(dumps: Sequence[TracedModel], folder: Path) -> list[Path]:
    """Write `{fw,bw}_node_count.csv` and, for each op, `{fw,bw}_total_{input,output}_size_dist/OP.{csv,svg}`; a phase
    that no dump has is left out. The same dumps give the same bytes; distributions of earlier dumps are removed."""
    texts: dict[Path, str] = {}
    for short, phase in PHASES.items():
        counts = node_counts(dumps, phase)
        folders = [folder / f"{short}_total_{side}_size_dist" for side in SIDES]
        _remove([folder / f"{short}_node_count.csv"])
        _remove(p for f in folders for p in sorted(f.glob("*")) if p.suffix in (".csv", ".svg"))
        if not counts:
            continue
        texts[folder / f"{short}_node_count.csv"] = _csv(list(counts[0]), counts)
        for side, place in zip(SIDES, folders, strict=True):
            for op, sizes in sorted(_sizes(dumps, phase, side).items()):
                rows = [{f"total_{side}_size_bytes": size, "count": n} for size, n in sorted(sizes.items())]
                texts[place / f"{op}.csv"] = _csv(list(rows[0]), rows)
                total = f"{sum(sizes.values()):,} nodes in all."
                said = f"Bytes of all {side}s of a {phase} node; each bar from its size up to the next. {total}"
                texts[place / f"{op}.svg"] = histogram(op, said, sizes)
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
        except OSError as error:
            raise EnvironmentFault(f"cannot write {path}: {error.strerror}. Choose another folder with -o.") from error
    return list(texts)


def node_counts(dumps: Iterable[TracedModel], phase: Phase) -> list[dict[str, object]]:
    """How many nodes each op has, and in how many models; the most frequent first."""
    counts: Counter[str] = Counter()
    models: Counter[str] = Counter()
    for dump in dumps:
        by_kind = Counter(node.op for node in _nodes(dump, phase))
        counts.update(by_kind)
        models.update(by_kind.keys())
    order = sorted(counts, key=lambda op: (-counts[op], op))
    return [{"op_type": op, "count": counts[op], "models": models[op]} for op in order]


def _sizes(dumps: Iterable[TracedModel], phase: Phase, side: str) -> dict[str, Counter[int]]:
    sizes: dict[str, Counter[int]] = {}
    for dump in dumps:
        for node in _nodes(dump, phase):
            tensors = node.inputs if side == "input" else node.outputs
            sizes.setdefault(node.op, Counter())[sum(tensor.nbytes for tensor in tensors)] += 1
    return sizes


def _nodes(dump: TracedModel, phase: Phase) -> Iterator[Node]:
    return (node for graph in dump.graphs if graph.phase == phase for node in graph.nodes)


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    return render([list(columns), *([row[name] for name in columns] for row in rows)])


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
