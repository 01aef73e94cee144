"""Gives products the program config that is quickest, where that is quicker than ttnn's own choice.

Without one ttnn cuts a product into blocks of up to 16 × 16 tiles, for few cores, as soon as a factor or the product
lies in L1, adds a bias by an operation of its own, and goes along K in short steps. Tried are cuts over the grid, along
the rows and along the columns, with steps of every length whose buffers fit. A left factor that was only just brought
out of block shards is taken from them where that is quicker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from proveout.chip.features import product_of
from proveout.chip.matmul import Blocks
from proveout.chip.program_config import cuts, shard_cuts
from proveout.chip.time import TRACED_GAP_NS
from proveout.kernels.cost import step_device_ops, step_time
from proveout.kernels.memory_config import core
from proveout.kernels.table import kind_of
from proveout.program import Arg, Construct, Program, Ref, Step
from proveout.types import DeviceSpec, Settings, TensorSpec

REGISTERS = 8
"""Tiles that the destination registers hold: the most in one subblock."""

USUAL = 1
LEAST_GAIN = 0.05
"""What a config must save of ttnn's own time: predictions are no sharper."""


def configure_products(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    leaving = {s.outputs[0]: s for s in program.body if _leaves_shards(s, program.specs)}
    readers = Counter(name for step in program.body for name in step.uses)
    leaving = {name: s for name, s in leaving.items() if readers[name] == 1 and name not in program.results}
    body = [_configured(step, program, leaving, chip, settings) for step in program.body]
    read = {name for step in body for name in step.uses}
    kept = tuple(s for s in body if not s.outputs or s.outputs[0] not in leaving or s.outputs[0] in read)
    return replace(program, body=kept) if kept != program.body else program


def _leaves_shards(step: Step, specs: Mapping[str, TensorSpec]) -> bool:
    """Whether a Step brings a tensor out of block shards."""
    if step.kernel != "ttnn.to_memory_config":
        return False
    source, result = specs[step.uses[0]].memory, specs[step.outputs[0]].memory
    return source.sharding == "block" and source.shard is not None and result.sharding == "interleaved"


def _configured(
    step: Step, program: Program, leaving: Mapping[str, Step], chip: DeviceSpec, settings: Settings
) -> Step:
    if kind_of(step) != "product" or step.attr("program_config") is not None or step.attr("transpose_a"):
        return step
    product = product_of(step_device_ops(step, program.specs, chip, settings)[0])
    if product.batch > 1:
        return step
    tried = [(_with(step, program_config=config_of(blocks, chip.grid)), 0) for blocks in cuts(product, chip)]
    left = step.attr("input_tensor_a")
    leave = leaving.get(left.name) if isinstance(left, Ref) else None
    if leave is not None:
        memory = program.specs[leave.uses[0]].memory
        assert memory.shard is not None
        saved = step_time(leave, program.specs, chip, settings).ns + TRACED_GAP_NS[USUAL]
        for blocks in shard_cuts(product, memory.shard, chip):
            config = config_of(blocks, memory.shard.grid)
            tried.append((_with(step, input_tensor_a=Ref(leave.uses[0]), program_config=config), saved))
    best, best_ns = step, round((1 - LEAST_GAIN) * step_time(step, program.specs, chip, settings).ns)
    for one, saved in tried:
        ns = step_time(one, program.specs, chip, settings).ns - saved
        if ns < best_ns:
            best, best_ns = one, ns
    return best


def _with(step: Step, **changed: Arg) -> Step:
    return replace(step, attrs=tuple({**dict(step.attrs), **changed}.items()))


def config_of(blocks: Blocks, grid: tuple[int, int]) -> Construct:
    """The config of these blocks on so many columns and rows of cores, as ttnn takes it."""
    columns, rows = grid
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
