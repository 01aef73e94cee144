"""The chip's numbers: block floats as packed, fidelity phases, accumulation; against rules written out by hand."""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from pathlib import Path

import numbers_by_hand as hand
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proveout.chip.fidelity import default_fidelity
from proveout.chip.specs import CHIPS
from proveout.kernels import blockfloat
from proveout.kernels.arithmetic import matrix, products
from proveout.kernels.arithmetic.errata import counting
from proveout.kernels.arithmetic.matrix import Unit
from proveout.types import DTYPE_BYTES, TensorSpec

quick = settings(deadline=None, max_examples=60)
BLOCK = ("bfloat8_b", "bfloat4_b")
PACKERS = ("host", "device")
FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
"""Any float32, denormals and the largest among them."""
moderate = st.floats(-(2.0**40), 2.0**40, width=32)
tiny = st.floats(-(2.0**-58), 2.0**-58, width=32)
"""Products of these leave the normal range."""


def unit(fidelity: str, fp32_dest: bool = False, arch: str = "wormhole") -> Unit:
    return Unit(arch, FIDELITIES.index(fidelity) + 1, fp32_dest)


def matmul(a: torch.Tensor, b: torch.Tensor, fidelity: str, fp32_dest: bool = False) -> torch.Tensor:
    return products.matmul(a[None], b[None], unit(fidelity, fp32_dest))[0]


def fractions(x: torch.Tensor) -> list[Fraction]:
    return [Fraction(v) for v in x.flatten().tolist()]


def pcc(x: torch.Tensor, y: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([x.flatten().double(), y.flatten().double()]))[0, 1])


# ---- block floats ---------------------------------------------------------------------------------------------------


@quick
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("dtype", BLOCK)
@given(values=st.lists(floats, min_size=16, max_size=16))
def test_a_group_reads_back_as_the_rules_written_by_hand_say(dtype, packer, values):
    assume(not any(math.isinf(hand.seven_bits(v)) for v in values))  # rounding may reach infinity
    found = blockfloat.quantise(torch.tensor(values, dtype=torch.float32), dtype, packer)
    assert fractions(found) == hand.quantised(values, dtype, packer)


@pytest.mark.parametrize("group", json.loads(Path(__file__).with_name("ttnn_packed.json").read_text()))
def test_a_group_reads_back_as_ttnn_itself_packed_it(group):
    """Recorded from ttnn 0.81.1's own host code, `ttnn.to_torch(ttnn.from_torch(x, dtype=…))`: ordinary numbers, ties,
    denormals, the largest, infinities and NaN. A NaN's own bits do not count."""
    bits = [int(word, 16) for word in group["float32"].split()]
    x = torch.tensor(bits).to(torch.int32).view(torch.float32)
    for dtype in BLOCK:
        wanted = torch.tensor([int(word, 16) for word in group[dtype].split()]).to(torch.int16).view(torch.bfloat16)
        torch.testing.assert_close(blockfloat.quantise(x, dtype), wanted, rtol=0, atol=0, equal_nan=True)


@quick
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("dtype", BLOCK)
@given(
    shape=st.lists(st.integers(1, 70), min_size=0, max_size=3).filter(lambda s: math.prod(s) < 9000),
    seed=st.integers(0, 99),
)
def test_bytes_unpack_to_what_the_tensor_reads_back_as(dtype, packer, shape, seed):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 7
    data = blockfloat.pack(x, dtype, packer)
    assert len(data) == TensorSpec(tuple(shape), dtype, "tile").nbytes
    assert torch.equal(blockfloat.unpack(data, dtype, tuple(shape)), blockfloat.quantise(x, dtype, packer))


@pytest.mark.parametrize(
    ("dtype", "sha256"),
    [
        ("bfloat8_b", "a7a2725ee02769fe54e6dd60201f3891c3c979bdccaff67c9acd23b31866b715"),
        ("bfloat4_b", "55cebc36643f619cb540959607372d2044acd236a87d9ff3219e5d1d8f891f01"),
    ],
)
def test_bytes_are_those_that_ttnn_itself_writes(dtype, sha256):
    """Recorded from ttnn 0.81.1: `ttnn.dump_tensor` of this tensor, without the file's head."""
    x = (torch.arange(40 * 70) * 37 % 1009 - 504).float().reshape(40, 70) / 64
    assert hashlib.sha256(blockfloat.pack(x, dtype)).hexdigest() == sha256


def test_a_tile_is_its_exponents_then_its_faces():
    x = torch.zeros(32, 32)
    x[17, 3] = -1.5  # third face, its second row
    data = blockfloat.pack(x, "bfloat8_b")
    face, row, column = 2, 1, 3
    assert data[face * 16 + row] == 127
    assert data[64 + face * 256 + row * 16 + column] == 0x80 | 0b1100000
    assert sum(b != 0 for b in data) == 2
    small = blockfloat.pack(x, "bfloat4_b")
    assert small[64 + (face * 256 + row * 16 + column) // 2] == (0x8 | 0b110) << 4
    assert (len(data), len(small)) == (1088, 576)
    assert (DTYPE_BYTES["bfloat8_b"] * 1024, DTYPE_BYTES["bfloat4_b"] * 1024) == (1088, 576)


@quick
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("dtype", BLOCK)
@given(values=st.lists(moderate, min_size=16, max_size=16))
def test_packing_twice_is_packing_once(dtype, packer, values):
    once = blockfloat.quantise(torch.tensor(values), dtype, packer)
    assert torch.equal(blockfloat.quantise(once, dtype, packer), once)


@quick
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("dtype", BLOCK)
@given(values=st.lists(moderate, min_size=16, max_size=16))
def test_packing_keeps_the_order_within_a_group(dtype, packer, values):
    found = blockfloat.quantise(torch.tensor(sorted(values)), dtype, packer).float()
    assert bool((found[1:] >= found[:-1]).all())


@pytest.mark.parametrize(
    ("values", "dtype", "host", "device"),
    [
        ([1.0, 64.5 / 64, 1.0], "bfloat8_b", 1.0, 65 / 64),  # a tie: to even, and away from zero
        ([1.0, 65.5 / 64, 1.0], "bfloat8_b", 66 / 64, 66 / 64),
        ([1.0, 1.75, 1.0], "bfloat4_b", 1.75, 1.75),
        ([1.0, 1.7, 1.0], "bfloat4_b", 1.75, 1.5),  # to nearest, and cut off
        ([1.0, 1.999, 1.0], "bfloat8_b", 127 / 64, 2.0),  # all ones; the chip's first rounding raises the exponent
        ([1.0, 1e-40, 1.0], "bfloat8_b", 0.0, 0.0),  # a denormal
        ([1.0, 2.0**-7 * (1 + 2.0**-20), 1.0], "bfloat8_b", 0.0, 1 / 64),  # what decides the tie was shifted out
        ([1.0, 127.5 / 256, 1.0], "bfloat8_b", 32 / 64, 32 / 64),
        ([1.0, 1.0 - 2.0**-8, 1.0], "bfloat8_b", 1.0, 1.0),  # the carry raises the exponent
    ],
)
def test_host_and_device_round_differently(values, dtype, host, device):
    x = torch.tensor(values)
    assert blockfloat.quantise(x, dtype, "host")[1].item() == host
    assert blockfloat.quantise(x, dtype, "device")[1].item() == device


def test_a_magnitude_of_zero_loses_its_sign():
    found = blockfloat.quantise(torch.tensor([1.0, -1e-9, -0.0]), "bfloat8_b")
    assert not torch.signbit(found[1:]).any()


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("dtype", BLOCK)
def test_infinity_and_nan_stay_and_take_their_neighbours_bits(dtype, packer):
    found = blockfloat.quantise(torch.tensor([math.inf, -math.inf, math.nan, 1.0]), dtype, packer)
    assert found[0] == math.inf
    assert found[1] == -math.inf
    assert found[2].isnan() if packer == "host" else found[2] == math.inf
    assert found[3] == 0


def test_groups_do_not_cross_faces_or_rows():
    x = torch.ones(2, 17)
    x[0, 16] = 1e6
    assert bool((blockfloat.quantise(x, "bfloat4_b")[:, :16] == 1).all())


# ---- the matrix unit ------------------------------------------------------------------------------------------------


def small_matmul(draw, numbers):
    rows, depth, columns = draw(st.integers(1, 3)), draw(st.sampled_from([1, 15, 17, 33, 70])), draw(st.integers(1, 3))
    values = st.lists(numbers, min_size=rows * depth, max_size=rows * depth)
    a = torch.tensor(draw(values), dtype=torch.float32).reshape(rows, depth)
    values = st.lists(numbers, min_size=columns * depth, max_size=columns * depth)
    return a, torch.tensor(draw(values), dtype=torch.float32).reshape(depth, columns)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@pytest.mark.parametrize("fp32_dest", [False, True])
@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("numbers", [moderate, tiny], ids=["moderate", "tiny"])
@given(data=st.data())
def test_matmul_is_the_rules_written_by_hand_bit_for_bit(data, numbers, fidelity, fp32_dest):
    a, b = small_matmul(data.draw, numbers)
    rows, columns = a.tolist(), b.t().tolist()
    wanted = [hand.matmul_element(row, column, fidelity, fp32_dest) for row in rows for column in columns]
    assert fractions(matmul(a, b, fidelity, fp32_dest)) == wanted
    assert fractions(matrix.matmul(a[None], b[None], unit(fidelity, fp32_dest))) == wanted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_whole_tiles_in_many_chunks_are_the_rules_written_by_hand(dtype, monkeypatch):
    monkeypatch.setattr(products, "CHUNK", 50)
    torch.manual_seed(1)
    a, b = torch.randn(2, 3, 9, 64).to(dtype), torch.randn(3, 64, 20).to(dtype)
    found = products.in_torch(a.reshape(6, 9, 64), b.repeat(2, 1, 1), unit("HiFi3"))
    assert found.shape == (6, 9, 20)
    for i, row, column in ((0, 0, 0), (5, 8, 19), (1, 4, 11)):
        wanted = hand.matmul_element(a.reshape(6, 9, 64)[i, row].tolist(), b[i % 3, :, column].tolist(), "HiFi3", False)
        assert Fraction(found[i, row, column].item()) == wanted


@quick
@pytest.mark.parametrize("fp32_dest", [False, True])
@pytest.mark.parametrize("fidelity", FIDELITIES)
@given(a=moderate, b=moderate | tiny)
def test_elementwise_multiply_is_the_rules_written_by_hand(a, b, fidelity, fp32_dest):
    found = matrix.multiply(torch.tensor([a]), torch.tensor([b]), unit(fidelity, fp32_dest))
    assert fractions(found) == [hand.multiply_element(a, b, fidelity, fp32_dest)]


@quick
@pytest.mark.parametrize("fp32_dest", [False, True])
@given(a=moderate | tiny, b=moderate)
def test_elementwise_add_is_the_rules_written_by_hand(a, b, fp32_dest):
    found = matrix.add(torch.tensor([a]), torch.tensor([b]), unit("LoFi", fp32_dest))
    assert fractions(found) == [hand.add_element(a, b, fp32_dest)]


@pytest.mark.parametrize(
    ("dtype", "fidelity"),
    [("bfloat4_b", "LoFi"), ("bfloat8_b", "HiFi2"), ("bfloat16", "HiFi4")],
)
def test_products_are_exact_at_the_fidelity_that_holds_the_format(dtype, fidelity):
    torch.manual_seed(3)
    a, b = (_as(torch.randn(64, 64) * 50, dtype) for _ in range(2))
    exact = a.double() * b.double()
    assert torch.equal(matrix.multiply(a, b, unit(fidelity, True)).double(), exact)
    lower = FIDELITIES[FIDELITIES.index(fidelity) - 1]
    if fidelity != "LoFi":
        assert not torch.equal(matrix.multiply(a, b, unit(lower, True)).double(), exact)
    # In a product with the identity each element has one term, so the whole product is exact too.
    eye = torch.eye(64)
    assert torch.equal(matmul(a, eye, fidelity, True).double(), a.double())
    assert torch.equal(matmul(eye, b, fidelity, True).double(), b.double())


def _as(x: torch.Tensor, dtype: str) -> torch.Tensor:
    return blockfloat.quantise(x, dtype) if dtype in BLOCK else x.to(getattr(torch, dtype))


def test_more_fidelity_is_never_less_exact():
    torch.manual_seed(4)
    a, b = torch.randn(64, 256), torch.randn(256, 64)
    exact = a.double() @ b.double()
    errors = [(matmul(a, b, f, True).double() - exact).norm().item() for f in FIDELITIES]
    assert errors == sorted(errors, reverse=True)


def test_weights_lose_more_than_activations_in_lofi():
    """SrcA (input 1) gives 5 bits, SrcB (input 0) 7."""
    six = torch.full((1, 1), 1 + 2.0**-5)  # needs 6 bits
    one = torch.ones(1, 1)
    assert matmul(six, one, "LoFi").item() == 1 + 2.0**-5
    assert matmul(one, six, "LoFi").item() == 1.0


def test_infinity_and_nan_are_numbers_to_the_matrix_unit():
    """1.m·2^128: infinity times one half is 2^127, infinities of both signs cancel."""
    a = torch.tensor([[math.inf, 0.0], [math.inf, -math.inf], [math.inf, 1.0]]).bfloat16()
    found = matmul(a, torch.tensor([[0.5], [0.5]]).bfloat16(), "HiFi4")
    assert found.flatten().tolist() == [2.0**127, 0.0, 2.0**127]
    assert matmul(a, torch.ones(2, 1).bfloat16(), "HiFi4")[0, 0] == math.inf


SILICON = {96: 0.0057, 192: 0.0078, 384: 0.0120, 576: 0.0157, 1152: 0.0259, 2304: 0.0430, 4608: 0.0729}
"""Relative L2 error of bfloat16 products by K on silicon: tt-xla#6009."""


@pytest.mark.parametrize("depth", SILICON)
def test_the_error_grows_with_k_as_silicons_does(depth):
    torch.manual_seed(0)
    a, b = torch.randn(64, depth).bfloat16(), torch.randn(depth, 64).bfloat16()
    exact = a.double() @ b.double()
    error = float((matmul(a, b, "HiFi4").double() - exact).norm() / exact.norm())
    assert error == pytest.approx(SILICON[depth], rel=0.06)


def test_6144_ones_are_8192_as_on_silicon():
    """tt-metal#8449: a bfloat16 destination of 4096 rounds up what 16 ones add."""
    ones = torch.ones(1, 6144).bfloat16()
    assert matmul(ones, ones.t().contiguous(), "HiFi4").item() == 8192


def test_minus_one_unit_is_minus_sixteen_on_wormhole_alone():
    """tt-metal#38306: 1 - 1 - 2^-23, the 1 in the destination, the others in the two groups of a step."""
    row = torch.zeros(1, 1, 32)
    row[..., 0], row[..., 16], row[..., 24] = 1.0, -1.0, -(2.0**-23)
    ones = torch.ones(1, 32, 1)
    for way in (products.matmul, products.in_torch, matrix.matmul):
        assert way(row, ones, unit("HiFi4", True)).item() == -16
        assert way(row, ones, unit("HiFi4", True, "blackhole")).item() == -(2.0**-23)
    with counting() as errata:
        products.matmul(row, ones, unit("HiFi4", True))
        assert errata.hits == 1


@pytest.mark.parametrize("fp32_dest", [False, True])
def test_the_fast_way_is_the_exact_one_whatever_the_exponents(fp32_dest):
    """Zeros, rows of tiny numbers, columns of huge ones, a destination that does not start at 0."""
    torch.manual_seed(5)
    a, b = torch.randn(2, 24, 80), torch.randn(2, 80, 10)
    a[:, 3], a[:, 5, :40], b[:, :, 2] = 0, 0, b[:, :, 2] * 1e-6
    a[:, 7] *= 2.0**-90
    a[0, 9] *= 2.0**100
    start = torch.randn(2, 24, 10).bfloat16().float()
    for begin in (None, start):
        for number in range(1, 5):
            how = Unit("wormhole", number, fp32_dest)
            wanted = matrix.matmul(a, b, how, begin)
            for way in (products.matmul, products.in_torch):
                assert torch.equal(way(a, b, how, begin).view(torch.int32), wanted.view(torch.int32))


ANCHORS = [
    # (input 0, input 1, fidelity, PCC with a bfloat16 and with a float32 destination): what the chip's rules give
    ("bfloat16", "bfloat16", "LoFi", 0.99983, 0.99990),
    ("bfloat16", "bfloat16", "HiFi2", 0.99984, 0.99999),
    ("bfloat16", "bfloat16", "HiFi4", 0.99984, 1.0),
    ("bfloat8_b", "bfloat8_b", "LoFi", 0.99979, 0.99986),
    ("bfloat8_b", "bfloat8_b", "HiFi2", 0.99981, 0.99995),
    ("bfloat16", "bfloat4_b", "HiFi2", 0.993, 0.993),
    ("bfloat4_b", "bfloat4_b", "LoFi", 0.986, 0.986),
]


@pytest.mark.parametrize(("in0", "in1", "fidelity", "bf16", "fp32"), ANCHORS)
def test_pcc_of_normal_operands_is_the_anchor(in0, in1, fidelity, bf16, fp32):
    """K = 1024. Anchors have 5 digits (3 with bfloat4_b) of another draw; 128×128 results put PCC's own spread well
    below the tolerance of two units in the last digit."""
    torch.manual_seed(0)
    a, b = torch.randn(128, 1024), torch.randn(1024, 128)
    exact = a.double() @ b.double()
    for fp32_dest, anchor in ((False, bf16), (True, fp32)):
        found = pcc(matmul(_as(a, in0), _as(b, in1), fidelity, fp32_dest), exact)
        assert found == pytest.approx(anchor, abs=2e-3 if "bfloat4_b" in (in0, in1) else 2e-5)


@pytest.mark.parametrize(
    ("dtypes", "wormhole", "blackhole"),
    [
        (("bfloat16", "bfloat16"), "HiFi2", "HiFi2"),
        (("bfloat16", "bfloat8_b"), "HiFi2", "HiFi2"),
        (("bfloat8_b", "bfloat4_b"), "LoFi", "LoFi"),
        (("float32", "float32"), "HiFi3", "HiFi4"),
        (("float32", "bfloat16"), "HiFi2", "HiFi2"),
    ],
)
def test_default_fidelity_is_ttnns(dtypes, wormhole, blackhole):
    assert default_fidelity(dtypes, CHIPS["n150"]) == wormhole
    assert default_fidelity(dtypes, CHIPS["p150"]) == blackhole
