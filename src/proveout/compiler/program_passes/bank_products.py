"""Lets products of one row of tiles read their weights where they lie: columns cut over the DRAM banks, each read by
the core beside it, where that is quicker than any other config.

A step of a decoder is little else than reading weights. Interleaved, every core reads from every bank; cut, each bank
serves one core in long runs. The row and the product are cut over cores of L1 meanwhile, and brought there and back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from proveout.chip.features import product_of
from proveout.chip.matmul import Product, tile_bytes
from proveout.chip.memory import shard_refusal
from proveout.compiler.program_passes.decide import choices_of, op_names
from proveout.compiler.program_passes.gain import LEAST_GAIN, steps_ns
from proveout.kernels.cost import step_device_ops
from proveout.kernels.memory_config import memory_arg
from proveout.kernels.table import infer, kind_of
from proveout.program import Arg, Construct, Name, Program, Ref, Step, free_name
from proveout.types import TILE, DeviceSpec, Memory, Settings, ShardSpec, TensorSpec

CONFIG = "ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig"
WIDTHS = Name("ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG")
FUSED = ("relu", "silu")
LONGEST = 8
"""K tiles of a step in the published configs, at most."""
BUFFERS = 3
"""Steps of weights that a core beside a bank holds at once."""
SHARE = 0.5
"""Of a core's L1, the most that those may take."""


def bank_products(program: Program, chip: DeviceSpec, settings: Settings) -> Program:
    weights, names = _own_weights(program), op_names(program)
    specs, setup, body = dict(program.specs), list(program.setup), list[Step]()
    rows: dict[tuple[str, Memory], str] = {}
    """Left factors that are cut already: products of one row read it once."""
    for step in program.body:
        right = step.attr("input_tensor_b") if kind_of(step) == "product" else None
        around = None
        choices = choices_of(names.get(step.outputs[0], ""), settings) if isinstance(right, Ref) else {}
        if isinstance(right, Ref) and right.name in weights and choices.keys().isdisjoint(("config", "memory")):
            around = _on_banks(step, right.name, rows, specs, chip, settings)
        if around is None:
            body.append(step)
            continue
        cut, steps, trial = around
        specs.update(trial)
        setup.append(cut)
        body += steps
    return replace(program, setup=tuple(setup), body=tuple(body), specs=specs)


def _own_weights(program: Program) -> set[str]:
    """What setup makes for one reader alone, in tiles of DRAM."""
    readers = Counter(name for step in program.body for name in step.uses)
    state = {weight for weight, _ in program.state}
    makers = {s.outputs[0]: s for s in program.setup if len(s.outputs) == 1 and state.isdisjoint(s.uses)}
    specs = program.specs
    return {
        name
        for name in makers
        if readers[name] == 1
        and specs[name].layout == "tile"
        and specs[name].memory == Memory("dram")
        and name not in program.results
    }


def _on_banks(
    step: Step,
    weight: str,
    rows: dict[tuple[str, Memory], str],
    specs: Mapping[str, TensorSpec],
    chip: DeviceSpec,
    settings: Settings,
) -> tuple[Step, list[Step], dict[str, TensorSpec]] | None:
    """The setup's Step that cuts the weight, the product with what brings its row and its result, and the new specs;
    None where this is not possible, or not quicker."""
    left, result = step.attr("input_tensor_a"), step.outputs[0]
    plain = not any(step.attr(name) for name in ("transpose_a", "transpose_b", "bias", "core_grid"))
    activation = step.attr("activation")
    if not plain or not isinstance(left, Ref) or len(specs[weight].shape) != 2 or activation not in (None, *FUSED):
        return None
    inside: dict[str, Arg] = {}
    if isinstance(activation, str):  # cut products take theirs in the config alone
        unary = Name(f"ttnn.UnaryOpType.{activation.upper()}")
        inside["fused_activation"] = Construct.of("ttnn.UnaryWithParam", unary)
    if specs[left.name].memory.is_sharded or specs[result].memory.is_sharded:
        return None
    product = product_of(step_device_ops(step, specs, chip, settings)[0])
    if product.m != 1 or product.batch != 1 or specs[left.name].shape[-1] % TILE:
        return None
    trial = dict(specs)
    wide = -(-product.n // chip.dram_banks) * TILE
    banks = Memory("dram", "width", ShardSpec((product.k * TILE, wide), (chip.dram_banks, 1)))
    cut = _moved(weight, banks, f"{weight}.banks", step, trial)
    if shard_refusal(trial[cut.outputs[0]], chip):
        return None
    best, best_ns = None, (1 - LEAST_GAIN) * steps_ns([step], specs, chip, settings)
    for grid, block in _cuts(product, chip):
        cores = grid[0] * grid[1]
        row = Memory("l1", "width", ShardSpec((TILE, product.k // cores * TILE), grid))
        tried = dict(trial)
        brought = [] if (left.name, row) in rows else [_moved(left.name, row, f"{left.name}.row", step, tried)]
        shards = brought[0].outputs[0] if brought else rows[left.name, row]
        config = Construct.of(CONFIG, in0_block_w=block, per_core_M=1, per_core_N=-(-product.n // cores), **inside)
        changed: dict[str, Arg] = {
            "input_tensor_a": Ref(shards), "input_tensor_b": Ref(cut.outputs[0]), "memory_config": WIDTHS,
            "program_config": config,
        }  # fmt: skip
        attrs = tuple({**{k: v for k, v in step.attrs if k != "activation"}, **changed}.items())
        beside = replace(step, attrs=attrs, outputs=(free_name(f"{result}.widths", tried),))
        tried[beside.outputs[0]] = infer(beside, tried)[0]
        back = _back(beside.outputs[0], result, specs[result].memory, step)
        steps = [*brought, beside, back]
        ns = steps_ns(steps, tried, chip, settings)
        if ns < best_ns:
            best, best_ns = (steps, tried, row, shards), ns
    if best is None:
        return None
    steps, tried, row, shards = best
    rows[left.name, row] = shards
    return cut, steps, {n: tried[n] for n in tried if n not in specs}


def _cuts(product: Product, chip: DeviceSpec) -> list[tuple[tuple[int, int], int]]:
    """Grids of cores that hold the row evenly, each with the most K tiles of a step for which there is room."""
    columns, rows = chip.grid
    grids = [(columns, n) for n in range(rows, 0, -1)] + [(n, 1) for n in range(columns - 1, 0, -1)]
    wide = -(-product.n // chip.dram_banks)
    room = int(SHARE * chip.l1_allocatable / (BUFFERS * wide * tile_bytes(product.in1)))
    cuts = []
    for grid in grids:
        held, rest = divmod(product.k, grid[0] * grid[1])
        blocks = [n for n in range(min(LONGEST, held, room), 0, -1) if held % n == 0]
        if not rest and blocks:
            cuts.append((grid, blocks[0]))
    return cuts


def _back(source: str, result: str, memory: Memory, at: Step) -> Step:
    attrs = (("tensor", Ref(source)), ("memory_config", memory_arg(memory)))
    return Step("ttnn.to_memory_config", attrs, (result,), at.origin)


def _moved(name: str, memory: Memory, new: str, at: Step, specs: dict[str, TensorSpec]) -> Step:
    move = Step(
        "ttnn.to_memory_config",
        (("tensor", Ref(name)), ("memory_config", memory_arg(memory))),
        (free_name(new, specs),),
        at.origin,
    )
    specs[move.outputs[0]] = infer(move, specs)[0]
    return move
