"""Makes the dumps of a compilation's passes readable: a diff and a drawing for each, and a page that lists them."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from proveout.coding import from_json
from proveout.report.drawing.assets import STYLE
from proveout.report.drawing.element import Html, el, join
from proveout.report.drawing.graph import PLACES, draw
from proveout.types import GraphNode


def write_pages(folder: Path) -> Path:
    """Add `.diff` and `.svg` files beside the dumps of every graph in a folder; gives the page that lists them."""
    sections = [_graph(path, folder) for path in sorted({p.parent for p in folder.rglob("[0-9][0-9]-*.json")})]
    page = el(
        "html",
        el("head", el("meta", charset="utf-8"), el("title", "Passes"), el("style", Html(STYLE))),
        el("body", el("header", el("h1", "What each pass did")), el("main", *sections)),
        lang="en",
    )
    path = folder / "index.html"
    path.write_text(f"<!doctype html>\n{page}\n")
    return path


def _graph(path: Path, top: Path) -> Html:
    rows = []
    before: tuple[Sequence[GraphNode], list[str]] | None = None
    for dump in sorted(path.glob("[0-9][0-9]-*.json")):
        nodes = [from_json(GraphNode, node) for node in json.loads(dump.read_text())]
        text = dump.with_suffix(".txt").read_text().splitlines()
        dump.with_suffix(".svg").write_text(draw(nodes, f"{path.name} after {_stage(dump)}"))
        changed = ""
        files = [".txt", ".svg"]
        if before is not None:
            diff = list(difflib.unified_diff(before[1], text, "before", f"after {_stage(dump)}", lineterm=""))
            dump.with_suffix(".diff").write_text("".join(f"{line}\n" for line in diff))
            changed = _changed(before[0], nodes) if diff else "nothing"
            files.insert(1, ".diff")
        links = [el("a", f[1:], href=dump.with_suffix(f).relative_to(top).as_posix()) for f in files]
        counts = Counter(node.place for node in nodes)
        cells = [_stage(dump), *(str(counts[p] or "") for p in _DRAWN), changed]
        rows.append(el("tr", *(el("td", cell) for cell in cells), el("td", *(join(link, "\u00a0") for link in links))))
        before = nodes, text
    titles = ["After", *(PLACES[p].capitalize() for p in _DRAWN), "What changed", "Files"]
    head = el("tr", *(el("th", title, scope="col") for title in titles))
    table = el("table", el("thead", head), el("tbody", *rows))
    return el("section", el("h2", str(path.relative_to(top))), el("div", table, class_="scroll"), class_="card")


_DRAWN = tuple(place for place in PLACES if place not in ("input", "output"))


def _stage(dump: Path) -> str:
    return dump.stem.partition("-")[2].replace("-", " ")


def _changed(before: Sequence[GraphNode], after: Sequence[GraphNode]) -> str:
    """`-4 ttnn.permute, +2 ttnn.reshape`; equal counts of every label are a change inside."""
    had, has = (Counter(node.label for node in nodes) for nodes in (before, after))
    moves = sorted((name, has[name] - had[name]) for name in had | has if has[name] != had[name])
    return ", ".join(f"{change:+} {name}" for name, change in moves) or "arguments, order or placement"
