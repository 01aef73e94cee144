"""`proveout ops`: the ATen ops that have a lowering."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from proveout.cli.request import Json
from proveout.errors import UsageError

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="Only ops whose name holds this.", show_default=False)]


def verb(name: Name = "", as_json: Json = False) -> int:
    """List the ATen ops that convert.

    Each with the ttnn kernels it becomes; any other op stays on the host.

    \b
    Example:
      proveout ops softmax
    """
    from proveout.cli.output import colour, emit, emit_json
    from proveout.ops.table import all_ops
    from proveout.report.terminal import grid

    table = sorted(all_ops(), key=lambda op: op.aten)
    found = [op for op in table if name in op.aten]
    if not found:
        near = difflib.get_close_matches(f"aten.{name}", [op.aten for op in table], n=3, cutoff=0.4)
        hint = f" Near: {', '.join(near)}." if near else " Run: proveout ops"
        raise UsageError(f"no op in the table has {name!r} in its name, so such an op stays on the host.{hint}")
    if as_json:
        emit_json({"ops": [{"aten": op.aten, "kernels": list(op.kernels), "doc": op.doc} for op in found]})
    else:
        emit(
            grid(
                ("ATen op", "Kernels", "Notes"),
                [(op.aten, ", ".join(op.kernels), op.doc) for op in found],
                colour(),
            )
        )
    return 0
