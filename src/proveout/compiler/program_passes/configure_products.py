"""Gives products the program config that is quickest, where that is quicker than ttnn's own choice.

Without one ttnn cuts a product into blocks of up to 16 × 16 tiles, for few cores, as soon as a factor or the product
lies in L1, adds a bias by an operation of its own, and goes along K in short steps. Tried are cuts over the grid, along
the rows and along the columns, with steps of every length whose buffers fit beside what lies in L1 then. A left factor
that was only just brought out of block shards is taken from them where that is quicker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from proveout.chip.features import product_of
from proveout.chip.matmul import Blocks
from proveout.chip.program_config import cuts, shard_cuts
from proveout.chip.time import TRACED_GAP_NS
from proveout.compiler.program_passes.deallocate import deallocate
from proveout.compiler.program_passes.gain import pays
from proveout.kernels.cost import USUAL, circular_bytes, memory_over_time, step_device_ops, step_time
from proveout.kernels.memory_config import core
from proveout.kernels.table import kernels, kind_of, refusal, specs_of
from proveout.program import Arg, Construct, Name, Program, Ref, Step
from proveout.types import DeviceSpec, Settings, TensorSpec

REGISTERS = 8
"""Tiles that the destination registers hold: the most in one subblock. Of float32 they hold half as many."""
INSIDE = {"relu": Construct.of("ttnn.UnaryWithParam", Name("ttnn.UnaryOpType.RELU"))}
"""Activations that a kernel applies before it rounds as after: they run inside it, and the numbers stay the same."""


def configure_products(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    if not any(kind_of(step) == "product" for step in program.body):
        return program
    leaving = {s.outputs[0]: s for s in program.body if _leaves_shards(s, program.specs)}
    readers = Counter(name for step in program.body for name in step.uses)
    leaving = {name: s for name, s in leaving.items() if readers[name] == 1 and name not in program.results}
    choose = _Choice(program, leaving, chip, settings)
    body = [choose.of(step) for step in program.body]
    read = {name for step in body for name in step.uses}
    kept = tuple(s for s in body if not s.outputs or s.outputs[0] not in leaving or s.outputs[0] in read)
    return replace(program, body=kept) if kept != program.body else program


def takes_config(step: Step, specs: Mapping[str, TensorSpec]) -> bool:
    """Whether it is a product of one right factor for all: a stack of them is cut by ttnn alone."""
    right = step.attr("input_tensor_b") if kind_of(step) == "product" else None
    return isinstance(right, Ref) and set(specs[right.name].shape[:-2]) <= {1} and not step.attr("transpose_a")


def _leaves_shards(step: Step, specs: Mapping[str, TensorSpec]) -> bool:
    """Whether a Step brings a tensor out of block shards."""
    if step.kernel != "ttnn.to_memory_config":
        return False
    source, result = specs[step.uses[0]].memory, specs[step.outputs[0]].memory
    return source.sharding == "block" and source.shard is not None and not result.is_sharded


class _Choice:
    """The quickest config for each product of a Program; what was chosen once is chosen again."""

    def __init__(self, program: Program, leaving: Mapping[str, Step], chip: DeviceSpec, settings: Settings) -> None:
        self.specs, self.leaving, self.chip, self.settings = program.specs, leaving, chip, settings
        self.room = {at.step.outputs: at.room for at in memory_over_time(deallocate(program), chip, settings)}
        """What the buffers that lie in L1 while a product runs leave to its own."""
        self.known: dict[object, Mapping[str, Arg] | None] = {}

    def of(self, step: Step) -> Step:
        if step.attr("program_config") is not None or not takes_config(step, self.specs):
            return step
        left = step.attr("input_tensor_a")
        leave = self.leaving.get(left.name) if isinstance(left, Ref) else None
        # A left factor that stays in its shards stays in L1, where there may be no room for it: this is seen later.
        room = self.room.get(step.outputs, 0)
        around = tuple(specs_of(step, self.specs).items()), self.specs[step.outputs[0]]
        key = step.kernel, around, room, self.specs[leave.uses[0]] if leave else None
        if key not in self.known:
            self.known[key] = self._quickest(step, leave, room)
        chosen = self.known[key]
        if chosen is None:
            return step
        if "input_tensor_a" in chosen and leave is not None:
            chosen = {**chosen, "input_tensor_a": Ref(leave.uses[0])}
        inside = step.attr("activation") in INSIDE
        return (step.without("activation") if inside else step).with_attrs(**chosen)

    def _quickest(self, step: Step, leave: Step | None, room: int) -> Mapping[str, Arg] | None:
        """The attributes that make a product quickest; None where ttnn's own choice is about as quick."""
        specs, chip = self.specs, self.chip
        op = step_device_ops(step, specs, chip, self.settings)[0]
        product = product_of(op)
        if product.batch > 1:
            return None
        registers = REGISTERS // 2 if op.param("fp32") or product.in0 == "float32" else REGISTERS
        activation = step.attr("activation")
        fused = INSIDE.get(activation) if isinstance(activation, str) else None
        tried: list[tuple[dict[str, Arg], int]] = [
            ({"program_config": config_of(blocks, chip.grid, fused, registers)}, 0) for blocks in cuts(product, chip)
        ]
        if leave is not None:
            memory = specs[leave.uses[0]].memory
            assert memory.shard is not None
            saved = step_time(leave, specs, chip, self.settings).ns + TRACED_GAP_NS[USUAL]
            for blocks in shard_cuts(product, memory.shard, chip):
                config = config_of(blocks, memory.shard.grid, fused, registers)
                tried.append(({"input_tensor_a": Ref(leave.uses[0]), "program_config": config}, saved))
        bare = step.without("activation") if fused is not None else step
        best, own_ns = None, step_time(step, specs, chip, self.settings).ns
        best_ns = own_ns
        for changed, saved in tried:
            one = bare.with_attrs(**changed)
            if refusal(kernels()[one.kernel], specs_of(one, specs)):
                continue
            ns = step_time(one, specs, chip, self.settings).ns - saved
            if ns < best_ns and pays(own_ns, ns) and circular_bytes(one, specs, chip) <= room:
                best, best_ns = changed, ns
        return best


def config_of(
    blocks: Blocks, grid: tuple[int, int], fused: Construct | None = None, registers: int = REGISTERS
) -> Construct:
    """The config of these blocks on so many columns and rows of cores, as ttnn takes it."""
    columns, rows = grid
    high, across = blocks.m // blocks.h, blocks.n // blocks.w
    shared: dict[str, Arg] = {
        "compute_with_storage_grid_size": core(columns, rows),
        "in0_block_w": blocks.k,
        "out_subblock_h": 1,
        "out_subblock_w": max(n for n in range(1, registers + 1) if across % n == 0),
        "per_core_M": blocks.m,
        "per_core_N": blocks.n,
    }
    if blocks.h > 1 or blocks.w > 1:
        shared |= {"out_block_h": high, "out_block_w": across}
    inside: dict[str, Arg] = {"fused_activation": fused} if fused is not None else {}
    if blocks.kind == "2d":
        name = "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig"
        return Construct.of(name, **shared, transpose_mcast=False, **inside)
    along = blocks.kind == "1d wide"
    name = "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig"
    return Construct.of(name, **shared, fuse_batch=True, mcast_in0=along, **inside)
