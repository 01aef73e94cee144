"""Which device operations one ttnn call becomes: what its time and its L1 are made of. Each kernel's row says it; here
is how a row is asked, and what the rows' rules share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proveout.chip.device_op import DeviceOp, Work
from proveout.kernels.row import Call, Kernel, Params, Specs, flat_specs
from proveout.program import Construct
from proveout.types import DRAM, HOST, L1, TensorSpec

SHARDED = replace(L1, sharding="height")


def device_ops(
    kernel: Kernel, specs: Specs, outputs: Sequence[TensorSpec], work: Work, fidelity: str
) -> tuple[DeviceOp, ...]:
    """The device operations of one call, in order; none where nothing is left to do, as for a reshape in place."""
    if not outputs:
        return ()
    # Tensors are told apart by identity, and specs that are equal may be one object in a Program.
    specs = {name: _told_apart(value, outputs) for name, value in specs.items()}
    operands = tuple(_on_device(s) for v in specs.values() for s in flat_specs(v))
    ops = kernel.device_ops(Call(specs, operands, tuple(outputs), work, fidelity))
    params = _params(specs)
    return tuple(_named(replace(op, params=(*op.params, *params)) if op.work is work else op, kernel) for op in ops)


def _params(specs: Specs) -> Params:
    """What a call says of how it runs, for the operation that does its arithmetic: the cores, the program config, the
    width of its sums."""
    params: list[tuple[str, Any]] = []
    config = specs.get("program_config")
    grids = [specs.get(name) for name in GRIDS]
    if isinstance(config, Construct):
        fields = {name: value for name, value in config.by_name.items() if isinstance(value, (int, float))}
        params.append(("program", ";".join(f"{name}={value}" for name, value in fields.items())))
        grids.append(config.by_name.get("compute_with_storage_grid_size"))
    cores = next((count for grid in grids if (count := cores_in(grid))), 0)
    params += [("on_cores", cores)] if cores else []
    for name in ("compute_kernel_config", "compute_config"):
        compute = specs.get(name)
        if isinstance(compute, Construct) and compute.by_name.get("fp32_dest_acc_en") is True:
            params.append(("fp32", True))
    return tuple(params)


GRIDS = ("core_grid", "sub_core_grids")
"""Arguments that name the cores which share a call."""


def cores_in(grid: Any) -> int:
    """How many cores a CoreGrid, a CoreCoord that counts them or a set of core ranges has; 0 for none of these."""
    if not isinstance(grid, Construct):
        return 0
    if grid.name == "ttnn.CoreCoord":
        return math.prod(int(str(n)) for n in grid.by_place)
    if grid.name == "ttnn.CoreGrid":
        return math.prod(int(str(n)) for n in grid.by_name.values())
    ranges = (grid,) if grid.name == "ttnn.CoreRange" else grid.inside("ttnn.CoreRange")
    boxes = ([[int(str(n)) for n in corner.by_place] for corner in r.inside("ttnn.CoreCoord")] for r in ranges)
    return sum((right - left + 1) * (bottom - top + 1) for (left, top), (right, bottom) in boxes)


def _named(op: DeviceOp, kernel: Kernel) -> DeviceOp:
    """An element-wise operation takes as long as its arithmetic: it is told by the call's name. One of no family is
    called as tt-metal's usually are, after the function."""
    if op.family == "other" and not op.code:
        return replace(op, code="".join(part.capitalize() for part in kernel.name.rpartition(".")[2].split("_")))
    if op.family not in ("unary", "binary") or op.param("called") or op.code == "Typecast":
        return op
    return replace(op, params=(*op.params, ("called", kernel.name.removeprefix("ttnn."))))


def _told_apart(value: Any, outputs: Sequence[TensorSpec]) -> Any:
    if isinstance(value, TensorSpec):
        return replace(value) if any(value is o for o in outputs) else value
    return tuple(_told_apart(v, outputs) for v in value) if isinstance(value, (tuple, list)) else value


def _on_device(spec: TensorSpec) -> TensorSpec:
    """Operands that ttnn sends over itself (weights of a convolution) are in DRAM when the kernel runs."""
    return replace(spec, memory=DRAM) if spec.memory == HOST else spec


def nothing(call: Call) -> list[DeviceOp]:
    """The host does it."""
    return []


def typecast_op(source: TensorSpec, out: TensorSpec) -> DeviceOp:
    return DeviceOp("unary", (source,), (out,), code="Typecast")


def tilize_ops(source: TensorSpec, out: TensorSpec) -> list[DeviceOp]:
    """Into tiles or out of them; whole tiles need no padding. Whole tiles of float32 have an operation of their own."""
    if source.layout == out.layout:
        return []
    tiled = out if out.layout == "tile" else source
    ragged = tiled.padded_shape != tiled.shape
    if out.layout == "tile":
        return [DeviceOp("tilize with padding" if ragged else "tilize", (source,), (out,))]
    if ragged:
        return [DeviceOp("untilize with unpadding", (source,), (out,))]
    return [DeviceOp("untilize", (source,), (out,), code="Untilize" if source.dtype == "float32" else "")]
