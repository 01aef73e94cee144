"""What would fit where a Program does not: every remedy is planned again, and only those that fit are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx

from proveout.chip.specs import CHIPS
from proveout.compiler.memory.evict import evict
from proveout.compiler.memory.split import split
from proveout.compiler.program_passes import deallocate
from proveout.kernels.cost import memory_use
from proveout.kernels.table import MEMORY_NAMES, infer
from proveout.program import DEALLOCATE, FROM_DEVICE, Program, Step
from proveout.types import DRAM, HOST, L1, DeviceSpec, Settings, TensorSpec

Compile = Callable[[GraphModule, Settings, DeviceSpec], Program]


def with_remedies(reason: str, remedies: Iterable[str]) -> str:
    """The allocator's sentence, and what would fit."""
    listed = list(remedies)
    return f"{reason} What fits: {'; or '.join(listed)}." if listed else f"{reason} Nothing that we tried would fit."


def program_remedies(program: Program, chip: DeviceSpec, settings: Settings) -> Iterator[str]:
    """Changes to a Program that did not come from our own passes: which tensors to keep elsewhere, what to divide."""
    in_l1 = [n for s in program.body for n in s.outputs if program.specs[n].memory == L1]
    largest = sorted(in_l1, key=lambda n: -program.specs[n].nbytes)
    for count in range(1, len(largest) + 1):
        if memory_use(_in_dram(program, largest[:count]), chip, settings).fits:
            yield f"keep {_listed(largest[:count])} in DRAM"
            return
    whole = replace(program, setup=_kept(program.setup), body=_kept(program.body))
    divided = deallocate(split(whole, chip))
    moved = evict(divided, chip, settings)
    if not memory_use(moved, chip, settings).fits:
        return
    makers = {n: s.kernel for s in divided.steps for n in s.outputs}
    pieces = [n for s in whole.steps if not s.is_transfer for n in s.outputs if makers.get(n) != s.kernel]
    away = [s.uses[0] for s in moved.body if s.kernel == FROM_DEVICE]
    streamed = [s.uses[0] for s in moved.setup if s.kernel == FROM_DEVICE]
    streamed += [n for s in divided.setup for n in s.outputs if _left(divided, n) and not _left(moved, n)]
    parts = [
        f"compute {_listed(pieces)} in pieces" if pieces else "",
        f"move {_listed(away)} to the host until the next use" if away else "",
        f"keep {_listed(streamed)} on the host and send it before each use" if streamed else "",
    ]
    yield ", ".join(filter(None, parts))


def graph_remedies(
    gm: GraphModule, weights: frozenset[int], chip: DeviceSpec, settings: Settings, compile: Compile
) -> Iterator[str]:
    """Changes of settings, batch or chip, for a graph that our passes could not make fit."""

    def fits(graph: GraphModule, chosen: Settings, on: DeviceSpec) -> bool:
        return memory_use(compile(graph, chosen, on), on, chosen).fits

    if settings.memory == "auto" and fits(gm, replace(settings, memory="dram"), chip):
        yield "settings memory='dram'"
    if settings.precision == "model" and fits(gm, replace(settings, precision="bfloat16"), chip):
        yield "settings precision='bfloat16'"
    batches = (f"a batch of {n}" for n, smaller in _smaller_batches(gm, weights) if fits(smaller, settings, chip))
    yield from _first(batches)
    yield from _first(f"device 'sim:{n}'" for n, other in CHIPS.items() if other != chip and fits(gm, settings, other))


def _first(items: Iterator[str]) -> Iterator[str]:
    for item in items:
        yield item
        return


def _kept(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(s for s in steps if s.kernel != DEALLOCATE)


def _left(program: Program, name: str) -> bool:
    return name in program.specs and program.specs[name].memory != HOST


def _in_dram(program: Program, names: Sequence[str]) -> Program:
    """The Program with some results in DRAM, and what follows from that for the others."""
    specs: dict[str, TensorSpec] = dict(program.specs)
    body = []
    for step in program.body:
        if not step.on_host and step.outputs:
            if set(names).intersection(step.outputs):
                step = step.with_attrs(memory_config=MEMORY_NAMES[DRAM])
            specs.update(zip(step.outputs, infer(step, specs, chips=program.chips)))
        body.append(step)
    return replace(program, body=tuple(body), specs=specs)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"%{n}" for n in dict.fromkeys(names))


def _smaller_batches(gm: GraphModule, weights: frozenset[int]) -> Iterator[tuple[int, GraphModule]]:
    """The graph traced again with half the batch, a quarter …; none where its sizes are written into it."""
    values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    tensors = [v for i, v in enumerate(values) if i not in weights and isinstance(v, torch.Tensor) and v.dim()]
    sizes = [int(v.shape[0]) for v in tensors]
    whole = batch = max(sizes, key=sizes.count, default=1)
    while batch > 1:
        batch //= 2

        def input_like(index: int, value: Any, length: int = batch) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            shape = list(value.shape)
            if index not in weights and shape[:1] == [whole]:
                shape[0] = length
            return torch.empty(shape, dtype=value.dtype)

        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                inputs = [input_like(i, v) for i, v in enumerate(values)]
                smaller = make_fx(Interpreter(gm).run, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
        except Exception:  # PyTorch raises many kinds here; every one means "not with these sizes"
            return
        yield batch, smaller
