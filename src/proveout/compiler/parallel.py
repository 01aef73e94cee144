"""Chooses how a graph uses a device's several chips: its batch cut over them, its linears' columns, or one chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.fx import GraphModule

from proveout.compiler.lower import Lowered
from proveout.compiler.program_passes import OUTPUT, NotSpread, Rows, split_columns, spread
from proveout.compiler.split_batch import BatchSplit, split_batch
from proveout.errors import CompileError
from proveout.kernels.cost import memory_use
from proveout.program import Arg, Program
from proveout.types import DeviceSpec, Settings

Build = Callable[[GraphModule], tuple[Lowered, Program]]
"""Compiles a graph for one chip."""


def over_chips(
    gm: GraphModule, weights: frozenset[int], chip: DeviceSpec, settings: Settings, build: Build
) -> tuple[Lowered, Program, str]:
    """The graph compiled for all chips of a device or for one of them, and a sentence that says which and why."""
    reason = "parallel='none' asks for it"
    if settings.parallel in ("auto", "data"):
        split = split_batch(gm, weights, chip.chips)
        if isinstance(split, BatchSplit):
            try:
                lowered, program = build(split.graph)
                program = spread(program, chip.chips, _rows(split, lowered))
            except NotSpread as error:
                reason = str(error)
            else:
                if settings.parallel == "data" or memory_use(program, chip).fits:
                    return lowered, program, str(split)
                reason = "the model and its share of the batch do not fit one chip's memory"
        else:
            reason = split
        if settings.parallel == "data":
            raise CompileError(f"parallel='data' cannot be: {reason}. Change the model there, or use parallel='auto'.")
    lowered, program = build(gm)
    if settings.parallel == "tensor" or (settings.parallel == "auto" and not memory_use(program, chip).fits):
        shares = split_columns(program, chip.chips)
        if shares.num_linears:
            linears = "1 linear" if shares.num_linears == 1 else f"{shares.num_linears} linears"
            note = f"tensor parallel: the columns of {linears} over {chip.chips} chips"
            whole = f"; whole on each: {'; '.join(shares.reasons)}" if shares.reasons else ""
            return lowered, spread(shares.program, chip.chips, Rows()), note + whole
        reason = "; ".join(shares.reasons) or "the model has no linear"
        if settings.parallel == "tensor":
            raise CompileError(f"parallel='tensor' cannot be: {reason}. Use parallel='auto'.")
    return lowered, program, f"one chip of {chip.chips}: {reason}"


def _rows(split: BatchSplit, lowered: Lowered) -> Rows:
    """The proof about nodes, said of the Program's values."""
    found = {name: [split.splits[n][i] for n, i in holders] for name, holders in lowered.holds.items()}
    splits = {name: dims[0] for name, dims in found.items()}
    several = {name for name, dims in found.items() if len(set(dims)) > 1}
    wanted = {name: _wanted(split, dict(lowered.holds[name])) for name in several}
    sizes = {node: {name: _argument(value) for name, value in given.items()} for node, given in split.sizes.items()}
    return Rows(split.batch, split.share, splits, wanted, sizes)


def _wanted(split: BatchSplit, holders: Mapping[str, int]) -> dict[str, int | None]:
    """For each node that takes one of these results, how that one is cut."""
    taken: dict[str, set[int | None]] = {}
    for node in split.graph.graph.nodes:
        for operand in node.all_input_nodes:
            if operand.name in holders:
                taker = OUTPUT if node.op == "output" else node.name
                taken.setdefault(taker, set()).add(split.splits[operand.name][holders[operand.name]])
    return {name: dims.pop() for name, dims in taken.items() if len(dims) == 1}


def _argument(value: Any) -> Arg:
    return tuple(value) if isinstance(value, list) else value
