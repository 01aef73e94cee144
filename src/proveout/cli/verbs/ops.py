"""`proveout ops`: the ATen ops that have a lowering, and how models call them."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from proveout.cli.options import CacheDir, Json
from proveout.cli.output import colour, emit, emit_json, note
from proveout.columns.words import pcc_text
from proveout.errors import UsageError
from proveout.ops.table import all_ops
from proveout.report.tables import corpus_ops
from proveout.report.tables.rows import load
from proveout.report.tables.terminal import grid
from proveout.store import Store

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="Only ops whose name holds this.", show_default=False)]
Variations = Annotated[
    bool, typer.Option("--variations", help="How the models in the cache call them, and what became of it.")
]


def verb(name: Name = "", variations: Variations = False, cache_dir: CacheDir = None, as_json: Json = False) -> int:
    """List the ATen ops that convert.

    Each with the ttnn kernels it becomes; any other op stays on the host.

    \b
    Examples:
      proveout ops softmax
      proveout ops softmax --variations
    """
    return _called(name, cache_dir, as_json) if variations else _table(name, as_json)


def _table(name: str, as_json: bool) -> int:
    table = sorted(all_ops(), key=lambda op: op.aten)
    matching = [op for op in table if name in op.aten]
    if not matching:
        near = difflib.get_close_matches(f"aten.{name}", [op.aten for op in table], n=3, cutoff=0.4)
        hint = f" Near: {', '.join(near)}." if near else " Run: proveout ops"
        raise UsageError(f"no op in the table has {name!r} in its name, so such an op stays on the host.{hint}")
    if as_json:
        emit_json({"ops": [{"aten": op.aten, "kernels": list(op.kernels), "doc": op.doc} for op in matching]})
    else:
        emit(
            grid(
                ("ATen op", "Kernels", "Notes"),
                [(op.aten, ", ".join(op.kernels), op.doc) for op in matching],
                colour(),
            )
        )
    return 0


def _called(name: str, cache_dir: str | None, as_json: bool) -> int:
    """Input variations over all Records: each with its state, count, models and lowest PCC."""
    store = Store(cache_dir)
    rows = corpus_ops.variations(load(store).records, name)
    if not rows:
        raise UsageError(f"no model in the cache {store.folder} calls an op with {name!r} in its name.")
    if as_json:
        emit_json({"cache": str(store.folder), "variations": rows})
    else:
        titles = ("ATen op", "Called with", "State", "Count", "Models", "PCC", "Reason")
        cells = [(r.aten, r.inputs, r.state, r.count, len(r.models), pcc_text(r.pcc), r.reason) for r in rows]
        emit(grid(titles, cells, colour()))
        note(f"cache {store.folder}: {len(rows)} variations")
    return 0
