"""Hard numbers for both ways to compute products: any pattern of bits, exponents at both ends, ties, cancellation.

The quick ways (compiled, and float32 arithmetic that rounds where the chip does) must have every bit of the plain one,
whose rules `numbers_by_hand` states once more.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numbers_by_hand as hand
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proveout.kernels.arithmetic import matrix, products
from proveout.kernels.arithmetic.bits import floats
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.blockfloat import quantise

QUICK = (products.matmul, products.in_torch)
FAST = settings(deadline=None, max_examples=40)
DEPTHS = (1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 65, 100)
WINDOWS = ((0, 255), (1, 12), (50, 75), (110, 140), (120, 128), (127, 127), (190, 205), (240, 254), (0, 1), (254, 255))
"""Exponent fields that operands are drawn from: everything, both ends, where the quick way gives up, near one."""
KINDS = ("any", "short", "ties", "cancel")
FORMATS = ("float32", "bfloat16", "bfloat8_b", "bfloat4_b")


def numbers(shape: tuple[int, ...], window: tuple[int, int], kind: str, generator: torch.Generator) -> torch.Tensor:
    """Signs and bits after the point at random: all of them, three, a half and no more, or of one size."""

    def drawn(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int32)

    after = {"any": drawn(0, (1 << 23) - 1), "short": drawn(0, 7) << 20, "ties": drawn(0, 1) << drawn(12, 22)}
    field = drawn(*window) if kind != "cancel" else drawn(window[0], min(window[0] + 1, window[1]))
    return floats(drawn(0, 1) << 31 | field << 23 | after.get(kind, drawn(0, 3) << 21))


def stored(x: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtype in ("bfloat8_b", "bfloat4_b"):
        return quantise(x.nan_to_num(0.0, 1.0, -1.0), dtype).bfloat16()
    return x if dtype == "float32" else (x.view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return torch.equal(found.contiguous().view(torch.int32), wanted.contiguous().view(torch.int32))


units = st.builds(Unit, st.sampled_from(["wormhole", "blackhole"]), st.integers(1, 4), st.booleans())
windows = st.sampled_from(WINDOWS)
kinds = st.sampled_from(KINDS)
formats = st.sampled_from(FORMATS)
seeds = st.integers(0, 1 << 30)


@FAST
@given(units, st.sampled_from(DEPTHS), windows, windows, kinds, kinds, formats, formats, st.booleans(), seeds)
def test_the_quick_product_has_every_bit_of_the_plain_one(
    unit, depth, first, second, kind0, kind1, dtype0, dtype1, begin, seed
):
    generator = torch.Generator().manual_seed(seed)
    a = stored(numbers((2, 5, depth), first, kind0, generator), dtype0)
    b = stored(numbers((2, depth, 6), second, kind1, generator), dtype1)
    start = None
    if begin:
        start = numbers((2, 5, 6), (100, 150), "any", generator)
        start = start if unit.fp32_dest else start.bfloat16().float()
    wanted = matrix.matmul(a, b, unit, start)
    for way in QUICK:
        assert same(way(a, b, unit, start), wanted)


@FAST
@given(units, windows, windows, kinds, kinds, formats, formats, seeds)
def test_quick_products_and_sums_of_elements_have_every_bit_of_the_plain_ones(
    unit, first, second, kind0, kind1, dtype0, dtype1, seed
):
    generator = torch.Generator().manual_seed(seed)
    a = stored(numbers((16, 16), first, kind0, generator), dtype0)
    b = stored(numbers((16, 16), second, kind1, generator), dtype1)
    assert same(products.multiply(a, b, unit), matrix.multiply(a, b, unit))
    for subtract in (False, True):
        assert same(products.add(a, b, unit, subtract), matrix.add(a, b, unit, subtract))


@FAST
@given(st.sampled_from((1, 15, 17, 33)), windows, windows, kinds, st.booleans(), st.integers(1, 4), seeds)
def test_the_plain_product_is_the_rules_written_by_hand_for_any_exponents(
    depth, first, second, kind, fp32_dest, phases, seed
):
    """Where nothing overflows: `numbers_by_hand` knows no infinity."""
    generator = torch.Generator().manual_seed(seed)
    low = [(a, min(b, 180)) for a, b in (first, second) if a <= 180]
    if len(low) < 2 or low[0][0] + low[1][0] > 300:
        return
    a, b = (numbers((depth,), window, kind, generator).bfloat16() for window in low)
    found = matrix.matmul(a.reshape(1, 1, -1), b.reshape(1, -1, 1), Unit("wormhole", phases, fp32_dest))
    fidelity = ("LoFi", "HiFi2", "HiFi3", "HiFi4")[phases - 1]
    if math.isinf(found.item()):
        return
    assert Fraction(found.item()) == hand.matmul_element(a.tolist(), b.tolist(), fidelity, fp32_dest)


BIG = float(torch.finfo(torch.bfloat16).max)
SPECIAL = (0.0, -0.0, 1e-40, -1e-40, math.inf, -math.inf, math.nan, BIG, -BIG, 2.0**-126, -(2.0**-126), 1.0, -1.0)


@pytest.mark.parametrize("fp32_dest", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_every_pair_of_special_numbers_is_computed_alike_both_ways(dtype, fp32_dest):
    a = torch.tensor(SPECIAL, dtype=dtype)
    left, right = a.repeat_interleave(len(SPECIAL)), a.repeat(len(SPECIAL))
    for arch in ("wormhole", "blackhole"):
        unit = Unit(arch, 4, fp32_dest)
        assert same(products.multiply(left, right, unit), matrix.multiply(left, right, unit))
        for subtract in (False, True):
            assert same(products.add(left, right, unit, subtract), matrix.add(left, right, unit, subtract))
        rows = torch.stack([left, right], -1)[None]
        for other in (0.5, 1.0, -2.0):
            column = torch.full((1, 2, 1), other, dtype=dtype)
            for way in QUICK:
                assert same(way(rows, column, unit), matrix.matmul(rows, column, unit))


@pytest.mark.parametrize("way", [*QUICK, matrix.matmul])
def test_special_numbers_are_what_the_rules_say(way):
    def product(row: list[float], column: list[float], fp32_dest: bool = False) -> float:
        a, b = (stored(torch.tensor(v), "bfloat16") for v in (row, column))
        return way(a.reshape(1, 1, -1), b.reshape(1, -1, 1), Unit("wormhole", 4, fp32_dest)).item()

    assert product([math.inf], [0.5]) == 2.0**127
    assert product([math.inf, -math.inf], [1.0, 1.0]) == 0.0
    assert product([math.inf, 1.0], [0.0, 1.0]) == 1.0  # infinity times 0 is 0
    quiet, other = (floats(torch.tensor(p)).item() for p in (0x7FC00000, 0x7FE00000))
    assert product([quiet], [2.0**-10]) == 1.5 * 2.0**118  # a NaN is 1.m·2^128, its payload counts
    assert product([other], [2.0**-10]) == 1.75 * 2.0**118
    assert product([1e-40, 1.0], [1e30, 1.0]) == 1.0  # denormals are 0
    assert math.copysign(1.0, product([-0.0], [1.0])) == 1.0  # a sum of nothing is +0
    assert product([-BIG, -BIG], [1.0, 1.0]) == -math.inf
    assert product([2.0**-100], [2.0**-100]) == 0.0


@given(st.floats(width=32), st.floats(width=32))
@example(math.nan, 1.0)
@example(-0.0, 0.0)
@FAST
def test_two_numbers_multiply_and_add_alike_both_ways(a, b):
    x, y = torch.tensor([a], dtype=torch.float32), torch.tensor([b], dtype=torch.float32)
    for fp32_dest in (False, True):
        unit = Unit("wormhole", 4, fp32_dest)
        assert same(products.multiply(x, y, unit), matrix.multiply(x, y, unit))
        assert same(products.add(x, y, unit), matrix.add(x, y, unit))
