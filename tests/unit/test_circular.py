"""Circular buffers, told from what real ttnn 0.81.1 built on its mock n150."""

from dataclasses import replace

import pytest

from proveout.chip.device_op import DeviceOp
from proveout.chip.matmul import Product
from proveout.chip.program_config import circular_bytes as matmul_bytes
from proveout.chip.program_config import program_config
from proveout.chip.specs import CHIPS
from proveout.kernels.circular import call_peak, held_by
from proveout.kernels.cost import arenas, circular_bytes, held_before, memory_use
from proveout.kernels.table import infer
from proveout.kernels.windows import Window, conv_shards
from proveout.program import Name, Program, Ref, Step
from proveout.types import DRAM, L1, Settings, TensorSpec

N150 = CHIPS["n150"]


def t(*shape, dtype="bfloat16", memory=DRAM):
    return TensorSpec(shape, dtype, "tile", memory)


def test_a_unary_kernel_holds_two_tiles_in_and_two_out():
    assert held_by(DeviceOp("unary", (t(64, 64),), (t(64, 64),)), N150).circular == 4 * 2048


def test_an_operand_that_is_stretched_goes_through_a_buffer_of_its_own():
    row = DeviceOp("binary", (t(64, 64), t(1, 64)), (t(64, 64),))
    assert held_by(row, N150).circular == 8 * 2048


def test_blocks_of_a_product_in_dram_spread_over_the_whole_grid():
    config = program_config(Product(12, 32, 32, in1="bfloat8_b"), N150)
    assert (config.kind, config.m, config.n, config.k) == ("2d", 2, 4, 4)
    assert matmul_bytes(Product(12, 32, 32, in1="bfloat8_b"), config) == 83_968


def test_a_result_in_l1_makes_blocks_of_16_by_16_tiles():
    product = Product(32, 12, 24, out_l1=True)
    config = program_config(product, N150)
    assert (config.kind, config.m, config.n) == ("2d", 16, 16)
    assert matmul_bytes(product, config) == 786_432


def test_blocks_shrink_until_they_fit():
    product = Product(128, 96, 96)
    config = program_config(product, N150)
    assert (config.block_m, config.block_n, config.k) == (16, 12, 4)
    assert matmul_bytes(product, config) <= N150.l1_allocatable


@pytest.mark.parametrize(("dtype", "bytes_"), [("bfloat16", 161_792), ("float32", 313_344)])
def test_softmax_holds_a_row_and_its_exponentials(dtype, bytes_):
    op = DeviceOp("softmax", (t(384, 1024, dtype=dtype),), (t(384, 1024, dtype=dtype),))
    assert held_by(op, N150).circular == bytes_


def test_rows_too_long_for_l1_are_normalised_in_parts():
    short, long = (
        held_by(DeviceOp("layer norm", (t(32, n),), (t(32, n),)), N150).circular for n in (4096 - 512, 2**17)
    )
    assert long < short <= N150.l1_allocatable


def test_a_convolution_borrows_the_rows_its_windows_reach_into():
    """28 × 28 pixels in rows of 30 with padding: 128 pixels of output from (4, 16) on look at 200 of input."""
    window = Window(1, 28, 28, 128, 128, (3, 3), (1, 1), (1, 1, 1, 1))
    shards = conv_shards(window, "bfloat16", N150)
    assert (shards.kind, shards.stick_bytes, shards.haloed_bytes) == ("block", 32, 6400)


def test_a_convolution_too_large_for_l1_runs_in_slices():
    window = Window(8, 56, 56, 128, 256, (7, 7), (1, 1), (3, 3, 3, 3))
    params = (("window", window), ("weights", "bfloat8_b"))
    held = held_by(DeviceOp("conv", (t(1, 1, 25088, 128),), (t(1, 1, 25088, 256),), params=params), N150)
    assert held.circular + held.tensors <= N150.l1_allocatable


def test_buffers_of_a_program_stay_until_the_next_one_is_laid_out():
    """As ttnn tallies them: the second result is allocated while the first program's buffers are still counted."""
    a, b, c = (t(64, 64, memory=L1) for _ in range(3))
    wide = DeviceOp("softmax", (a,), (b,))
    narrow = DeviceOp("unary", (b,), (c,))
    assert call_peak([wide, narrow], [c], N150) == 2 * 2048 + held_by(wide, N150).circular


def program(*steps, memory="DRAM", shape=(64, 64)):
    specs = {"x": TensorSpec(shape, "float32")}
    place = ("memory_config", Name(f"ttnn.{memory}_MEMORY_CONFIG"))
    to = (("dtype", Name("ttnn.bfloat16")), ("layout", Name("ttnn.TILE_LAYOUT")), ("device", Name("device")))
    body = (Step("ttnn.from_torch", (("tensor", Ref("x")), *to, place), ("a",)), *steps)
    for step in body:
        specs.update(zip(step.outputs, infer(step, specs)))
    return Program("p", "ttnn", ("x",), (), (), (), (), body, specs)


@pytest.mark.parametrize(
    ("narrow", "wide", "bytes_"),
    [
        ((1, 32, 1), (32, 32, 1152), (36864,)),
        ((1, 1, 4096), (1, 256, 4096), (32768,)),
        ((8, 1, 64, 128), (8, 4, 64, 128), ()),
    ],
)
def test_tiles_expanded_along_rows_or_columns_are_made_of_rows_that_lie_there_too(narrow, wide, bytes_):
    attrs = (("input_tensor", Ref("a")), ("output_shape", wide), ("memory_config", Name("ttnn.L1_MEMORY_CONFIG")))
    step, specs = Step("ttnn.expand", attrs, ("b",)), {"a": t(*narrow), "b": t(*wide, memory=L1)}
    assert held_before(step, specs, N150) == bytes_
    assert held_before(step, {**specs, "b": t(*wide)}, N150) == ()


def test_circular_buffers_that_meet_the_tensors_in_l1_do_not_fit():
    softmax = Step("ttnn.softmax", (("input_tensor", Ref("a")),), ("b",))
    made = program(softmax, memory="L1", shape=(64, 1024))
    held = circular_bytes(softmax, made.specs, N150)
    tensors = 2 * 2048  # 64 tiles of each on 64 cores
    chip = replace(N150, l1_small=0)
    assert memory_use(made, replace(chip, l1_allocatable=held + tensors)).fits
    use = memory_use(made, replace(chip, l1_allocatable=held + tensors - 1))
    assert not use.fits
    assert use.peak_at == (
        f"out of L1 for the circular buffers of ttnn.softmax: {held} B per core asked, "
        f"{held - 1} B free, {held - 1} B of them before the first buffer. Live then: %a 2048 B, %b 2048 B."
    )


def test_a_traced_program_leaves_the_top_of_dram_to_the_trace():
    small = replace(N150, trace_region=1000)
    assert arenas(small, Settings(trace=True))["dram"].capacity == N150.dram_bank_bytes - 1000
    assert arenas(small)["dram"].capacity == N150.dram_bank_bytes
