"""The captured graph of one call, as ttnn-visualizer reads it: the call, its device operations, what they allocate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proveout.program import DEALLOCATE, Step
from proveout.report.perf.sheet import SheetRow, plain
from proveout.report.visualizer.schema import DEVICE, MEMORY_LAYOUTS
from proveout.types import DeviceSpec, TensorSpec

BFLOAT16_TILE_BYTES = 2048


@dataclass(frozen=True)
class PlacedBuffer:
    """One buffer as the allocator placed it: the same address in every bank."""

    spec: TensorSpec
    address: int
    size: int


def captured_graph(
    step: Step,
    taken: Sequence[SheetRow],
    tensors: Sequence[int],
    buffers: Sequence[PlacedBuffer],
    chip: DeviceSpec,
    circular: int,
) -> list[dict[str, Any]]:
    """The call and, nested in it, its device operations with their circular buffers; then what it allocated.
    `circular` is the L1 per core that the call holds while it runs."""
    nodes: list[dict[str, Any]] = []
    name = step.kernel if not step.on_host else f"(torch) {step.kernel}"

    def add(kind: str, level: int, **params: Any) -> int:
        number = len(nodes)
        nodes.append(
            {
                "counter": number,
                "id": number,
                "node_type": kind,
                "params": params,
                "connections": [],
                "arguments": [],
                "input_tensors": [],
                "stacking_level": level,
            }
        )
        if number:
            nodes[number - 1]["connections"].append(number)
        return number

    add("capture_start", 0)
    call = add("function_start", 1, name=name, inputs=str(len(step.uses)))
    nodes[call]["arguments"] = [plain(value) for _, value in step.attrs]
    nodes[call]["input_tensors"] = list(tensors)
    for row in taken:
        if row.kind != "device":
            continue
        add("function_start", 2, name=row.code, inputs=str(len(row.inputs)))
        cores = f"{{[(x=0,y=0) - (x={chip.grid[0] - 1},y={-(-row.time.cores // chip.grid[0]) - 1})]}}"
        add(
            "circular_buffer_allocate",
            3,
            address=str(chip.l1_per_core - chip.l1_allocatable),
            size=str(circular),
            core_range_set=cores,
            num_tiles=str(-(-circular // BFLOAT16_TILE_BYTES)),
            device_id=str(DEVICE),
            globally_allocated="false",
        )
        add("circular_buffer_deallocate_all", 3)
        add("function_end", 2, name=row.code)
    for buffer in buffers:
        add(
            "buffer_allocate",
            2,
            address=str(buffer.address),
            size=str(buffer.spec.nbytes),
            type=buffer.spec.memory.buffer.upper(),
            layout=MEMORY_LAYOUTS[buffer.spec.memory.sharding],
            page_size=str(buffer.spec.page_bytes),
            num_cores=str(chip.cores if buffer.spec.memory.buffer == "l1" else 0),
            device_id=str(DEVICE),
        )
    if step.kernel == DEALLOCATE:
        add("buffer_deallocate", 2, device_id=str(DEVICE))
    add("function_end", 1, name=name)
    add("capture_end", 0)
    return nodes
