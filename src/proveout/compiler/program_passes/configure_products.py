"""Gives products a program config where that is quicker.

Without one ttnn cuts a product into blocks of up to 16 × 16 tiles, for few cores, as soon as a factor or the product
lies in L1, and adds a bias by an operation of its own. The config spreads it over all cores.
"""

from __future__ import annotations

from dataclasses import replace

from proveout.chip.features import product_of
from proveout.chip.matmul import Blocks
from proveout.chip.program_config import spread
from proveout.kernels.cost import step_device_ops, step_time
from proveout.kernels.memory_config import core
from proveout.kernels.table import kind_of
from proveout.program import Arg, Construct, Program, Step
from proveout.types import DeviceSpec, Settings

REGISTERS = 8
"""Tiles that the destination registers hold: the most in one subblock."""


def configure_products(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    body = tuple(_configured(step, program, chip, settings) for step in program.body)
    return replace(program, body=body) if body != program.body else program


def _configured(step: Step, program: Program, chip: DeviceSpec, settings: Settings) -> Step:
    if kind_of(step) != "product" or step.attr("program_config") is not None or step.attr("transpose_a"):
        return step
    if step.attr("bias") is None and not any(
        program.specs[n].memory.buffer == "l1" for n in (*step.uses, *step.outputs)
    ):
        return step
    product = product_of(step_device_ops(step, program.specs, chip, settings)[0])
    if product.batch > 1:
        return step
    config = config_of(spread(product, chip), chip)
    changed = replace(step, attrs=(*step.attrs, ("program_config", config)))
    before, after = (step_time(s, program.specs, chip, settings).ns for s in (step, changed))
    return changed if after < before else step


def config_of(blocks: Blocks, chip: DeviceSpec) -> Construct:
    """The config of these blocks, as ttnn takes it."""
    columns, rows = chip.grid
    high, across = blocks.m // blocks.h, blocks.n // blocks.w
    shared: dict[str, Arg] = {
        "compute_with_storage_grid_size": core(columns, rows),
        "in0_block_w": blocks.k,
        "out_subblock_h": 1,
        "out_subblock_w": max(n for n in range(1, REGISTERS + 1) if across % n == 0),
        "per_core_M": blocks.m,
        "per_core_N": blocks.n,
    }
    if blocks.h > 1 or blocks.w > 1:
        shared |= {"out_block_h": high, "out_block_w": across}
    if blocks.kind == "2d":
        return Construct.of("ttnn.MatmulMultiCoreReuseMultiCastProgramConfig", **shared, transpose_mcast=False)
    along = blocks.kind == "1d wide"
    return Construct.of("ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig", **shared, fuse_batch=True, mcast_in0=along)
