"""Cuts what decode kernels take over the chip's cores, one user a core: ttnn takes new rows of a cache no other way."""

from __future__ import annotations

import math
from dataclasses import replace

from proveout.kernels.memory_config import memory_arg
from proveout.kernels.table import infer, kernels
from proveout.program import Program, Ref, Step
from proveout.types import DeviceSpec, Memory, ShardSpec, TensorSpec


def shard_users(program: Program, chip: DeviceSpec) -> Program:
    specs = dict(program.specs)
    body: list[Step] = []
    for step in program.body:
        cut = frozenset() if step.on_host else kernels()[step.kernel].user_shards
        for key, arg in step.attrs:
            memory = user_memory(specs[arg.name], chip) if key in cut and isinstance(arg, Ref) else None
            if memory is None or not isinstance(arg, Ref) or specs[arg.name].memory == memory:
                continue
            name = f"{arg.name}.users"
            if name not in specs:
                attrs = (("tensor", arg), ("memory_config", memory_arg(memory)))
                body.append(Step("ttnn.to_memory_config", attrs, (name,), step.origin))
                specs[name] = infer(body[-1], specs)[0]
            step = step.with_attrs(**{key: Ref(name)})
        body.append(step)
    return replace(program, body=tuple(body), specs=specs) if len(body) != len(program.body) else program


def user_memory(spec: TensorSpec, chip: DeviceSpec) -> Memory | None:
    """Height shards of [1, users, heads, size], a user to each core of a box of them; None where no box has so many."""
    users, rows, size = spec.shape[1], spec.padded_shape[-2], spec.padded_shape[-1]
    columns = next((n for n in range(min(users, chip.grid[0]), 0, -1) if users % n == 0), 1)
    if math.prod((columns, users // columns)) != users or users // columns > chip.grid[1]:
        return None
    return Memory("l1", "height", ShardSpec((rows, size), (columns, users // columns)))
