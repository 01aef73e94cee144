"""Cuts normalisations over the chip's cores in block shards where that is quicker, resharding as little as possible.

Interleaved, a norm runs on as many cores as its tensor has rows of tiles: four of 64 for a sequence of 128.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from proveout.chip.memory import bytes_per_bank, shard_refusal
from proveout.compiler.program_passes.gain import pays, steps_ns
from proveout.kernels.memory_config import core, memory_arg
from proveout.kernels.table import infer, kernels, kind_of
from proveout.program import Construct, Program, Ref, Step, free_name
from proveout.types import DRAM, TILE, DeviceSpec, Memory, Settings, ShardSpec, TensorSpec

SHARE = 0.25
"""Of a core's L1, the most that one shard may take."""


def shard_norms(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    specs = dict(program.specs)
    readers = Counter(name for step in program.body for name in step.uses)
    body: list[Step] = []
    for step in program.body:
        if kind_of(step) == "norm":
            body = _sharded(step, body, specs, readers, chip, settings)
        else:
            body.append(step)
    return replace(program, body=tuple(body), specs=specs) if len(body) != len(program.body) else program


def block_memory(spec: TensorSpec, chip: DeviceSpec) -> Memory | None:
    """Block shards over as many cores as divide the tensor evenly; None where there is nothing to divide. A row of
    tiles that is not full is cut as one that is: each row is normalised by itself."""
    if spec.layout != "tile" or spec.shape[-1] % TILE or spec.memory.is_sharded:
        return None
    tall, wide = math.prod(spec.padded_shape[:-1]) // TILE, spec.shape[-1] // TILE
    rows = max(n for n in range(1, chip.grid[1] + 1) if tall % n == 0)
    columns = max(n for n in range(1, chip.grid[0] + 1) if wide % n == 0)
    if rows * columns == 1:
        return None
    shard = ShardSpec((TILE * tall // rows, TILE * wide // columns), (columns, rows))
    memory = Memory("l1", "block", shard)
    cut = replace(spec, memory=memory)
    fits = bytes_per_bank(cut, chip) <= SHARE * chip.l1_allocatable
    return memory if fits and shard_refusal(cut, chip) is None else None


def sharded_ns(step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings) -> int | None:
    """What a norm would take in shards, brought there and back; None where it cannot be cut."""
    source = step.attr("input_tensor")
    memory = block_memory(specs[source.name], chip) if isinstance(source, Ref) else None
    if memory is None or not isinstance(source, Ref):
        return None
    around, inside = specs[source.name], replace(specs[source.name], memory=memory)
    place, back = memory_arg(memory), memory_arg(around.memory)
    steps = [
        Step("ttnn.to_memory_config", (("tensor", Ref("in")), ("memory_config", place)), ("shards",)),
        replace(step.with_attrs(input_tensor=Ref("shards"), memory_config=place), outputs=("cut",)),
        Step("ttnn.to_memory_config", (("tensor", Ref("cut")), ("memory_config", back)), ("out",)),
    ]
    trial = {**specs, "in": around, "shards": inside, "cut": inside, "out": around}
    return steps_ns(steps, trial, chip, settings)


def _sharded(
    step: Step,
    body: list[Step],
    specs: dict[str, TensorSpec],
    readers: Counter[str],
    chip: DeviceSpec,
    settings: Settings,
) -> list[Step]:
    """The body so far and the norm, in shards if the modelled time says that it pays."""  # fmt: skip
    source, result = step.attr("input_tensor"), step.outputs[0]
    memory = block_memory(specs[source.name], chip) if isinstance(source, Ref) else None
    if memory is None or not isinstance(source, Ref):
        return [*body, step]
    trial = dict(specs)
    place = memory_arg(memory)
    writer = next((s for s in reversed(body) if source.name in s.outputs), None)
    if writer is not None and _writes_shards(writer) and readers[source.name] == 1:
        before = [s.with_attrs(memory_config=place) if s is writer else s for s in body]
        trial[source.name] = replace(specs[source.name], memory=memory)
        added, old, shards = [next(s for s in before if source.name in s.outputs)], [writer, step], source.name
    else:
        shards = free_name(f"{source.name}.shards", trial)
        move = Step("ttnn.to_memory_config", (("tensor", source), ("memory_config", place)), (shards,), step.origin)
        trial[shards] = infer(move, trial)[0]
        before, added, old = [*body, move], [move], [step]
    sharded = free_name(f"{result}.shards", trial)
    config = _program_config(specs[source.name], memory)
    norm = step.with_attrs(input_tensor=Ref(shards), memory_config=place, program_config=config)
    norm = replace(norm, outputs=(sharded,))
    trial[sharded] = replace(specs[result], memory=memory)
    back = memory_arg(specs[result].memory if specs[result].memory.buffer != "host" else DRAM)
    leave = Step("ttnn.to_memory_config", (("tensor", Ref(sharded)), ("memory_config", back)), (result,), step.origin)
    if not pays(steps_ns(old, specs, chip, settings), steps_ns([*added, norm, leave], trial, chip, settings)):
        return [*body, step]
    specs.update(trial)
    return [*before, norm, leave]


def _writes_shards(step: Step) -> bool:
    """What only a norm reads then needs no resharding."""
    return not step.on_host and kernels()[step.kernel].writes_shards


def _program_config(spec: TensorSpec, memory: Memory) -> Construct:
    assert memory.shard is not None
    (height, width), (columns, rows) = memory.shard.shape, memory.shard.grid
    across = width // TILE
    subblock = max(n for n in range(1, 5) if across % n == 0)
    return Construct.of(
        "ttnn.LayerNormShardedMultiCoreProgramConfig",
        compute_with_storage_grid_size=core(columns, rows),
        subblock_w=subblock,
        block_h=height // TILE,
        block_w=across,
        inplace=False,
    )
