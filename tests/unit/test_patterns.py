"""Every bit of the matrix unit, its packer and its unpacker against `patterns_by_hand`: odd depths, mixed formats, any
pattern: denormals, infinities, NaN with payloads, zeros of both signs."""

from __future__ import annotations

import itertools
import random

import patterns_by_hand as hand
import pytest
import torch

from proveout.kernels.arithmetic import formats, matrix, products
from proveout.kernels.arithmetic.bits import bits, floats
from proveout.kernels.arithmetic.matrix import Unit

SPECIAL = (0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x8080, 0x3F80, 0xBF80, 0x3F81, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80,
           0x7FC1, 0xFF81, 0x4380, 0x3C00, 0xBB80)  # fmt: skip
"""bfloat16: zeros, denormals, the smallest and the largest numbers, ones, infinities, NaN."""
FORMATS = ((16, 16), (16, 32), (32, 16), (32, 32))
UNITS = [
    Unit(arch, phases, wide) for arch in ("wormhole", "blackhole") for wide in (False, True) for phases in (1, 2, 4)
]
WAYS = (products.matmul, products.in_torch, matrix.matmul)


def setting(unit: Unit) -> hand.Setting:
    return hand.Setting(unit.arch == "wormhole", unit.phases, unit.fp32_dest, unit.half)


def drawn(rng: random.Random, count: int, width: int, kind: str) -> list[int]:
    """Patterns: any at all, special ones among ordinary ones, or numbers near each other, whose sums cancel."""
    out = []
    for _ in range(count):
        if kind == "any":
            short = rng.getrandbits(16)
        elif kind == "special" and rng.random() < 0.5:
            short = rng.choice(SPECIAL)
        else:
            short = rng.getrandbits(1) << 15 | rng.randint(123, 129) << 7 | rng.getrandbits(7)
        low = rng.choice((0, 0x8000, 0x2000, rng.getrandbits(16)))
        out.append(short << 16 | low if width == 32 else short)
    return out


def tensor(patterns: list[int], width: int, half: bool = False) -> torch.Tensor:
    if width == 32:
        return torch.tensor([p - (p >> 31 << 32) for p in patterns], dtype=torch.int32).view(torch.float32)
    short = torch.tensor([p - (p >> 15 << 16) for p in patterns], dtype=torch.int16)
    return short.view(torch.float16 if half else torch.bfloat16)


def pattern(x: torch.Tensor) -> list[int]:
    return [p & 0xFFFFFFFF for p in bits(x).flatten().tolist()]


@pytest.mark.parametrize("kind", ["any", "special", "near"])
@pytest.mark.parametrize("widths", FORMATS, ids=["bf16", "bf16-fp32", "fp32-bf16", "fp32"])
def test_products_are_the_rules_for_any_pattern(widths: tuple[int, int], kind: str) -> None:
    rng = random.Random(f"{widths} {kind}")
    for unit, depth in zip(UNITS, itertools.cycle((1, 8, 17, 33, 40, 64, 71))):
        rows, columns = 2, 3
        left = [drawn(rng, depth, widths[0], kind) for _ in range(rows)]
        right = [drawn(rng, depth, widths[1], kind) for _ in range(columns)]
        start = drawn(rng, rows * columns, 32, kind) if depth % 2 else [0] * (rows * columns)
        start = start if unit.fp32_dest else [p >> 16 << 16 for p in start]
        wanted = [
            hand.matmul(r, widths[0], c, widths[1], setting(unit), start[i * columns + j])
            for i, r in enumerate(left)
            for j, c in enumerate(right)
        ]
        in0 = torch.stack([tensor(r, widths[0]) for r in left])[None]
        in1 = torch.stack([tensor(c, widths[1]) for c in right], -1)[None]
        begin = tensor(start, 32).reshape(1, rows, columns)
        for way in WAYS:
            assert pattern(way(in0, in1, unit, begin)) == wanted, (unit, depth, way)


@pytest.mark.parametrize("wide", [False, True])
def test_float16_products_are_the_rules_for_any_pattern(wide: bool) -> None:
    rng = random.Random(5)
    for phases, depth in ((1, 9), (2, 32), (3, 40), (4, 65)):
        unit = Unit("wormhole", phases, wide, half=True)
        row, column = ([rng.getrandbits(16) for _ in range(depth)] for _ in range(2))
        wanted = [hand.matmul(row, 16, column, 16, setting(unit))]
        for way in WAYS:
            found = way(tensor(row, 16, True).reshape(1, 1, -1), tensor(column, 16, True).reshape(1, -1, 1), unit)
            assert pattern(found) == wanted


@pytest.mark.parametrize("kind", ["any", "special", "near"])
@pytest.mark.parametrize("widths", FORMATS, ids=["bf16", "bf16-fp32", "fp32-bf16", "fp32"])
def test_elements_are_the_rules_for_any_pattern(widths: tuple[int, int], kind: str) -> None:
    rng = random.Random(f"elements {widths} {kind}")
    a, b = (drawn(rng, 150, w, kind) for w in widths)
    x, y = tensor(a, widths[0]), tensor(b, widths[1])
    for unit in UNITS:
        told = setting(unit)
        wanted = [hand.multiply(p, widths[0], q, widths[1], told) for p, q in zip(a, b)]
        assert pattern(products.multiply(x, y, unit)) == pattern(matrix.multiply(x, y, unit)) == wanted
        for subtract in (False, True):
            wanted = [hand.add(p, widths[0], q, widths[1], told, subtract) for p, q in zip(a, b)]
            assert pattern(products.add(x, y, unit, subtract)) == wanted
            assert pattern(matrix.add(x, y, unit, subtract)) == wanted


@pytest.mark.parametrize("kind", ["any", "special", "near"])
@pytest.mark.parametrize("width", [16, 32])
def test_sums_and_maxima_down_the_rows_are_the_rules(width: int, kind: str) -> None:
    rng = random.Random(f"reduce {width} {kind}")
    for unit, rows in zip(UNITS, itertools.cycle((1, 16, 31, 33, 70))):
        columns = [drawn(rng, rows, width, kind) for _ in range(3)]
        scaler = rng.choice((0x3F80, 0x3D00, 0x3EAB, 0xBF80))
        x = torch.stack([tensor(c, width) for c in columns], -1)[None]
        scale = float(tensor([scaler], 16).float())
        wide_scaler = scaler if width == 16 else scaler << 16
        wanted = [hand.sum_column(c, width, wide_scaler, setting(unit)) for c in columns]
        assert pattern(matrix.sum_rows(x, scale, unit)) == wanted
        assert pattern(matrix.max_rows(x, unit)) == [hand.max_column(c, width, setting(unit)) for c in columns]


@pytest.mark.parametrize("kind", ["any", "special", "near"])
@pytest.mark.parametrize("wide", [False, True])
def test_packing_is_the_rules(wide: bool, kind: str) -> None:
    rng = random.Random(f"pack {wide} {kind}")
    dests = [p if wide else p >> 16 << 16 for p in drawn(rng, 640, 32, kind)]
    x = tensor(dests, 32)
    assert [p >> 16 for p in pattern(formats.pack_bfloat16(x, wide))] == [hand.pack_bf16(p, wide) for p in dests]
    for dtype, num_bits in formats.MAGNITUDE_BITS.items():
        for precise in (False, True):
            sign, magnitude, shared = formats.pack_blocks(x.reshape(-1, 16), dtype, wide, precise)
            codes = (sign << num_bits | magnitude).tolist()
            for i, block_codes in enumerate(codes):
                wanted = hand.pack_block(dests[16 * i : 16 * i + 16], num_bits, wide, precise)
                assert (block_codes, int(shared[i])) == wanted


@pytest.mark.parametrize(("num_bits", "exponents"), [(7, range(256)), (3, range(256))])
def test_unpacking_is_the_rules_for_every_code_and_exponent(num_bits: int, exponents: range) -> None:
    codes = torch.arange(1 << num_bits + 1)
    for shared in exponents:
        sign, magnitude = codes >> num_bits, codes & (1 << num_bits) - 1
        found = formats.unpack_blocks(sign.int(), magnitude.int(), torch.tensor(shared).int(), num_bits)
        assert pattern(found) == [hand.unpack(c, shared, num_bits) for c in codes.tolist()]


def test_sums_of_bfloat16_in_l1_are_the_rules() -> None:
    rng = random.Random(9)
    numbers = [p for p in (*SPECIAL, *(rng.getrandbits(16) for _ in range(60))) if p & 0x7FFF <= 0x7F80]
    pairs = list(itertools.product(numbers, numbers))
    there, packed = (floats(bits(tensor([pair[i] for pair in pairs], 16))) for i in (0, 1))
    found = [p >> 16 for p in pattern(formats.add_in_l1(there, packed, fp32=False))]
    assert found == [hand.add_bf16_in_l1(*pair) for pair in pairs]
