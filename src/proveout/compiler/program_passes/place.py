"""Puts results of the body into L1 where they fit while they live, and into DRAM where they do not."""

from __future__ import annotations

from dataclasses import replace

from proveout.chip.memory import Arena, bytes_per_bank
from proveout.compiler.program_passes.deallocate import freed_after
from proveout.errors import OutOfMemory
from proveout.kernels.signatures import parameters
from proveout.kernels.table import MEMORY_NAMES, infer, kernels
from proveout.program import Program, Step, refs
from proveout.types import DRAM, HOST, L1, DeviceSpec, TensorSpec

L1_SHARE = 0.5
"""Of each core's L1, for tensors; the rest is left to the kernels' circular buffers."""


def place(program: Program, chip: DeviceSpec) -> Program:
    freed = freed_after(program)
    arena = Arena("L1", int(chip.l1_allocatable * L1_SHARE))
    to_dram = {n for step in program.body if not step.on_host for n in _from_dram_alone(step)}
    specs: dict[str, TensorSpec] = dict(program.specs)
    body = []
    for index, step in enumerate(program.body):
        if not step.on_host and step.outputs and specs[step.outputs[0]].memory != HOST:
            step = _placed(step, specs, arena, chip, allow_l1=to_dram.isdisjoint(step.outputs))
        body.append(step)
        for name in freed.get(index, ()):
            arena.free(name)
    return replace(program, body=tuple(body), specs=specs)


def _from_dram_alone(step: Step) -> list[str]:
    rows = kernels()[step.kernel].dram_operands
    return [ref.name for key, arg in step.attrs if key in rows for ref in refs(arg)]


def _placed(step: Step, specs: dict[str, TensorSpec], arena: Arena, chip: DeviceSpec, allow_l1: bool) -> Step:
    """The Step with its memory_config said outright: ttnn's defaults differ from kernel to kernel."""
    movable = "memory_config" in parameters(step.kernel)
    default = infer(step, specs)
    wanted = default[0].memory if not movable else L1 if allow_l1 else DRAM
    for name, spec in zip(step.outputs, default):
        if wanted == L1:
            try:
                arena.allocate(name, bytes_per_bank(replace(spec, memory=L1), chip))
            except OutOfMemory:
                wanted = DRAM
    if wanted == DRAM:
        for name in step.outputs:
            arena.free(name)
    if movable:
        step = replace(step, attrs=(*step.attrs, ("memory_config", MEMORY_NAMES[wanted])))
    specs.update(zip(step.outputs, infer(step, specs)))
    return step
