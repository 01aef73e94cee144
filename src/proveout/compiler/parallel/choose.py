"""Chooses how a graph uses a device's several chips: its batch cut over them, its linears' columns, or one chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from torch.fx import GraphModule

from proveout.compiler.lower import Lowered
from proveout.compiler.parallel.batch import BatchSplit, split_batch
from proveout.compiler.parallel.columns import Shares, split_columns
from proveout.compiler.parallel.heads import HeadSplit, gathered, split_heads
from proveout.compiler.parallel.spread import OUTPUT, NotSpread, Rows, spread
from proveout.errors import CompileError
from proveout.kernels.cost import memory_use, program_ns, step_times
from proveout.program import Arg, Program
from proveout.types import DeviceSpec, Settings
from proveout.words import rounded

ProgramPass = Callable[[Program], Program]


@dataclass(frozen=True)
class Built:
    """A graph lowered and run through the Program passes."""

    lowered: Lowered
    program: Program
    gone: Mapping[str, str]
    """Nodes that a pass left no Step of, each with the pass."""
    history: tuple[tuple[str, Program], ...]
    """What each pass gave, by its name."""
    resident: bool
    """Whether all of it stays on the device: nothing was divided, and nothing waits on the host."""


class Build(Protocol):
    """Compiles a graph for one chip; `cut` is a pass that runs before memory is looked at."""

    def __call__(self, graph: GraphModule, cut: ProgramPass | None = None) -> Built: ...


def over_chips(
    gm: GraphModule, weights: frozenset[int], chip: DeviceSpec, settings: Settings, build: Build
) -> tuple[Built, str]:
    """The graph compiled for all chips of a device or for one of them, and a sentence that says which and why.

    What stays on the device is preferred, the batch first; columns are cut by themselves only where one chip is short.
    """
    if settings.parallel == "data":
        return _or_error("data", _by_rows(gm, weights, chip, build), "Change the model there, or use parallel='auto'.")
    if settings.parallel == "tensor":
        return _or_error("tensor", _by_columns(gm, chip, build), "Use parallel='auto'.")
    if settings.parallel == "none":
        return build(gm), _one_chip(chip, "parallel='none' asks for it")
    rows = _by_rows(gm, weights, chip, build)
    if not isinstance(rows, str) and rows[0].resident and _fits(rows[0], chip):
        return rows
    reason = rows if isinstance(rows, str) else "the model and its share of the batch do not fit one chip's memory"
    whole = build(gm)
    if whole.resident and _fits(whole, chip):
        return whole, _one_chip(chip, reason)
    columns = _by_columns(gm, chip, build)
    if not isinstance(columns, str) and (_fits(columns[0], chip) or not _fits(whole, chip)):
        return columns
    if not isinstance(rows, str) and _fits(rows[0], chip) and not _fits(whole, chip):
        return rows
    return whole, _one_chip(chip, f"{reason}; {columns}" if isinstance(columns, str) else reason)


def over_heads(
    gm: GraphModule,
    weights: frozenset[int],
    state: Mapping[int, int],
    chip: DeviceSpec,
    settings: Settings,
    build: Build,
) -> tuple[Built, str]:
    """The same for a graph that writes to buffers, such as a cache: those stay on the chips, cut by heads.

    Several chips are taken where they are modelled to be quicker, or where one is short.
    """
    if settings.parallel == "none":
        return build(gm), _one_chip(chip, "parallel='none' asks for it")
    if settings.parallel == "data":
        raise CompileError(f"parallel='data' cannot be: {KEEPS_STATE}. Use parallel='auto'.")
    heads = _by_heads(gm, weights, state, chip, build)
    if settings.parallel == "tensor":
        return _or_error("tensor", heads, "Use parallel='auto'.")
    whole = build(gm)
    if isinstance(heads, str):
        return whole, _one_chip(chip, heads)
    if not _fits(whole, chip):
        return heads if _fits(heads[0], chip) else (whole, _one_chip(chip, "several do not fit either"))
    one, several = (_ns(built, chip, settings) for built in (whole, heads[0]))
    if several < one and _fits(heads[0], chip):
        return heads
    reason = f"{heads[1]} would take {rounded(several / 1e6)} ms a call in place of {rounded(one / 1e6)} (modelled)"
    return whole, _one_chip(chip, reason)


KEEPS_STATE = "the graph writes to buffers, which stay on the chips between calls"


def _ns(built: Built, chip: DeviceSpec, settings: Settings) -> int:
    return program_ns(step_times(built.program, chip, settings), settings)


def _by_heads(
    gm: GraphModule, weights: frozenset[int], state: Mapping[int, int], chip: DeviceSpec, build: Build
) -> tuple[Built, str] | str:
    split = split_heads(gm, weights, state, chip.chips)
    if isinstance(split, str):
        return split
    built = build(split.graph)
    rows = replace(_rows(split, built.lowered), cut=split.cut)
    try:
        return _spread(replace(built, program=gathered(built.program, split)), chip, rows), str(split)
    except NotSpread as error:
        return str(error)


def _or_error(way: str, built: tuple[Built, str] | str, advice: str) -> tuple[Built, str]:
    if isinstance(built, str):
        raise CompileError(f"parallel={way!r} cannot be: {built}. {advice}")
    return built


def _one_chip(chip: DeviceSpec, reason: str) -> str:
    return f"one chip of {chip.chips}: {reason}"


def _fits(built: Built, chip: DeviceSpec) -> bool:
    return memory_use(built.program, chip).fits


def _by_rows(gm: GraphModule, weights: frozenset[int], chip: DeviceSpec, build: Build) -> tuple[Built, str] | str:
    split = split_batch(gm, weights, chip.chips)
    if isinstance(split, str):
        return split
    built = build(split.graph)
    try:
        return _spread(built, chip, _rows(split, built.lowered)), str(split)
    except NotSpread as error:
        return str(error) if built.resident else f"a chip's share of the batch needs the host's memory: {error}"


def _by_columns(gm: GraphModule, chip: DeviceSpec, build: Build) -> tuple[Built, str] | str:
    plans: list[Shares] = []

    def cut_columns(program: Program) -> Program:
        plans.append(split_columns(program, chip.chips))
        return plans[-1].program

    built = build(gm, cut_columns)
    (shares,) = plans
    if not shares.num_linears:
        return "; ".join(shares.reasons) or "the model has no linear"
    linears = "1 linear" if shares.num_linears == 1 else f"{shares.num_linears} linears"
    whole = f"; whole on each: {'; '.join(shares.reasons)}" if shares.reasons else ""
    note = f"tensor parallel: the columns of {linears} over {chip.chips} chips{whole}"
    return _spread(built, chip, Rows()), note


def _spread(built: Built, chip: DeviceSpec, rows: Rows) -> Built:
    program = spread(built.program, chip.chips, rows)
    return replace(built, program=program, history=(*built.history, ("spread", program)))


def _rows(split: BatchSplit | HeadSplit, lowered: Lowered) -> Rows:
    """The proof about nodes, said of the Program's values."""
    rows = {name: [split.splits[n][i] for n, i in holders] for name, holders in lowered.holds.items()}
    splits = {name: dims[0] for name, dims in rows.items()}
    several = {name for name, dims in rows.items() if len(set(dims)) > 1}
    wanted = {name: _wanted(split, dict(lowered.holds[name])) for name in several}
    sizes = {
        node: {name: _argument(value) for name, value in arguments.items()} for node, arguments in split.sizes.items()
    }
    return Rows(split.batch, split.share, splits, wanted, sizes)


def _wanted(split: BatchSplit | HeadSplit, holders: Mapping[str, int]) -> dict[str, int | None]:
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
