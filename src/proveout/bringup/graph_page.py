"""The graph as one page that opens offline: modules are boxes that open, with ops inside, on a canvas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from proveout.report.drawing.element import Html, el, page
from proveout.report.tables.html import POLICY

if TYPE_CHECKING:
    from proveout.bringup.graph import GraphOp

COLOURS = (("state", "status"), ("pcc", "PCC"), ("ns", "modelled time"))


def render(name: str, device: str, ops: Sequence[GraphOp], types: Mapping[str, str]) -> str:
    """One HTML document; the ops as rows, strings said once."""
    style, script = (
        resources.files("proveout.bringup").joinpath(name).read_text() for name in ("graph.css", "graph.js")
    )
    choices = [el("option", f"by {words}", value=key) for key, words in COLOURS]
    bar = el(
        "header",
        el("h1", name),
        el("span", device, class_="dim"),
        el("select", *choices, id="colour", aria_label="Colour"),
        el("input", type="search", id="find", placeholder="Find an op, module or line", aria_label="Find"),
        el("button", "Open all", id="open", type="button"),
        el("button", "Close all", id="close", type="button"),
        el("button", "Fit", id="fit", type="button"),
        el("span", id="legend"),
    )
    return page(
        f"{name}: graph",
        style,
        POLICY,
        bar,
        el("main", el("canvas", id="canvas", tabindex=0), el("aside", id="about", aria_live="polite")),
        el("script", Html(f"const DATA = {_document(ops, types)};\n{script}")),
    )


def _document(ops: Sequence[GraphOp], types: Mapping[str, str]) -> Html:
    texts: dict[str, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    rows = [
        [
            text(op.module), text(op.aten), text(op.state), text(op.node), text(op.shape), text(op.reason),
            text(op.source), text(", ".join(op.calls)), op.pcc, op.ns, op.uses,
        ]
        for op in ops
    ]  # fmt: skip
    used = {prefix for op in ops for prefix in _prefixes(op.module)}
    data = {"texts": list(texts), "ops": rows, "types": {path: types[path] for path in sorted(used & set(types))}}
    # Inside a script element `</script>` ends it and `<!--<script>` keeps it open: no `<` of ours may stand there.
    return Html(json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))


def _prefixes(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]
