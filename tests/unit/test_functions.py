"""Functions, norms and attention by the vector unit's sequences: as wrong as silicon, and no more."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from ulp_ops import find
from ulp_page import wrong

from proveout.kernels.arithmetic import matrix, products
from proveout.kernels.arithmetic.functions import Sfpu
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.arithmetic.table import FUNCTIONS, PAIRS
from proveout.kernels.faithful import Compute
from proveout.kernels.faithful.functions import unary
from proveout.kernels.faithful.norms import attention, layer_norm, softmax

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "data" / "eltwise_accuracy.csv"
PAGE = ROOT / "docs" / "reference" / "numerics-ulp.md"
SILICON = [
    (r["arch"], op, float(r["max_ulp"]), r["mean_ulp_where_inexact"])
    for r in csv.DictReader(TABLE.open(newline=""))
    for op in [r["op"] + ("" if r["variant"] == "default" else f" {r['variant']}")]
    if r["dtype"] == "bfloat16" and find(op)
]
"""Published measurements of bfloat16 functions that we model."""
ELSEWHERE = {"sin", "cos", "ldexp", "lerp", "multigammaln", "pow", "tanhshrink"}
"""bfloat16 rows that docs/reference/numerics-ulp.md lists as different, or whose maximum is a search's."""


def checked(arch: str, op: str, largest: float, mean: str) -> None:
    found = wrong(find(op), arch, "bfloat16")
    assert found.largest == (largest if largest <= 1 else pytest.approx(largest, rel=0.1))
    if mean and found.mean and find(op).operands == 1 and op not in ("erfc", "logit"):
        assert found.mean == pytest.approx(float(mean), rel=0.02)


def rows(arch: str) -> list[object]:
    """Functions of several operands take longest."""
    found = [r[1:] for r in SILICON if r[0] == arch and r[1] not in ELSEWHERE]
    return [pytest.param(*r, marks=pytest.mark.slow if find(r[0]).operands > 1 else ()) for r in found]


@pytest.mark.parametrize(("op", "largest", "mean"), rows("wormhole"))
def test_a_bfloat16_function_is_as_wrong_as_wormhole_is(op, largest, mean):
    checked("wormhole", op, largest, mean)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "largest", "mean"), rows("blackhole"))
def test_a_bfloat16_function_is_as_wrong_as_blackhole_is(op, largest, mean):
    checked("blackhole", op, largest, mean)


def test_every_published_operation_is_modelled_and_each_that_differs_has_its_reason():
    published = {
        r["op"] + ("" if r["variant"] == "default" else f" {r['variant']}")
        for r in csv.DictReader(TABLE.open(newline=""))
    }
    assert all(map(find, published))
    page = PAGE.read_text()
    table = page.split("## Rows that differ, and why")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ") and "silicon" not in line]
    assert len(rows) == 309
    differs = {cells[0].strip() for cells in rows if cells[-1].strip() == "differs"}
    listed = page.split("## Rows that differ, and why")[1].split("##")[0]
    assert differs == {line.split("`")[1] for line in listed.splitlines() if line.startswith("- ")}
    assert "not known yet" not in listed
    small = [cells for cells in rows if float(cells[3]) <= 1]
    large = [cells for cells in rows if float(cells[3]) > 1]
    assert all(cells[-1].strip() == "equal" for cells in small)
    assert sum(cells[-1].strip() == "within 10 %" for cells in large) * 2 >= len(large)


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 40, 96, generator=torch.Generator().manual_seed(0)).bfloat16()


def test_a_bfloat16_function_is_a_table_of_its_sequence(x):
    found = unary("ttnn.gelu", Compute("HiFi4"), x)
    assert torch.equal(found.float(), FUNCTIONS["gelu"](Sfpu("wormhole", wide=False), x.float()))
    assert not torch.equal(found, unary("ttnn.gelu", Compute("HiFi4"), x, variant="Tanh"))
    wide = unary("ttnn.gelu", Compute("HiFi4", True, out="float32"), x.float())
    assert relative(wide, F.gelu(x.double())) < 1e-6


def test_norms_and_softmax_are_torchs_up_to_the_chips_rounding(x):
    compute, exact = Compute("HiFi4"), x.double()
    weight, bias = torch.randn(96).bfloat16(), torch.randn(96).bfloat16()
    assert relative(softmax("ttnn.softmax", compute, x), exact.softmax(-1)) < 0.02
    assert relative(softmax("ttnn.softmax", compute, x, 1), exact.softmax(1)) < 0.02
    wanted = F.layer_norm(exact, (96,), weight.double(), bias.double(), 1e-5)
    assert relative(layer_norm("ttnn.layer_norm", compute, x, 1e-5, weight, bias), wanted) < 0.02
    wanted = F.rms_norm(exact, (96,), weight.double(), 1e-5)
    assert relative(layer_norm("ttnn.rms_norm", compute, x, 1e-5, weight), wanted) < 0.02


@pytest.mark.parametrize("kind", ["plain", "causal", "masked"])
def test_attention_in_blocks_is_torchs_up_to_the_chips_rounding(kind):
    """160 keys: two blocks, so that the running maximum and sum are corrected once."""
    draw = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 4, 160, 32, generator=draw).bfloat16() for _ in range(3))
    mask = torch.zeros(1, 1, 160, 160).bfloat16()
    mask[..., 100:] = float("-inf")
    given = mask if kind == "masked" else None
    found = attention("sdpa", Compute("HiFi2"), q, k, v, given, is_causal=kind == "causal")
    exact = (t.double() for t in (q, k, v))
    wanted = F.scaled_dot_product_attention(
        *exact, attn_mask=None if given is None else given.double(), is_causal=kind == "causal"
    )
    assert relative(found, wanted) < 0.03


@pytest.mark.parametrize("fp32_dest", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_fast_sums_and_products_of_elements_are_the_exact_ones(dtype, fp32_dest):
    draw = torch.Generator().manual_seed(2)
    a, b = (torch.randn(4000, generator=draw) * torch.exp(4 * torch.randn(4000, generator=draw)) for _ in range(2))
    a, b = a.to(dtype), b.to(dtype)
    a[:50], b[20:80], b[100:900], a[5], b[1000:1100] = 0, 0, -a[100:900], -0.0, -float("inf")
    for phases in range(1, 5):
        unit = Unit("wormhole", phases, fp32_dest)
        for fast, exact in ((products.add, matrix.add), (products.multiply, matrix.multiply)):
            assert torch.equal(fast(a, b, unit).view(torch.int32), exact(a, b, unit).view(torch.int32))
    less, wanted = (way(a, b, unit, subtract=True) for way in (products.add, matrix.add))
    assert torch.equal(less.view(torch.int32), wanted.view(torch.int32))


DOMAINS = {
    "i1": (torch.special.i1, -80.0, 80.0),
    "digamma": (torch.digamma, 1.6, 900.0),
    "polygamma": (lambda x: torch.polygamma(1, x), 0.5, 30.0),
    "log_sigmoid": (F.logsigmoid, -80.0, 20.0),
}
"""Where tt-metal's polynomials are meant to hold."""


@pytest.mark.parametrize("arch", ["wormhole", "blackhole"])
@pytest.mark.parametrize("name", DOMAINS)
def test_a_special_function_is_near_the_exact_one_where_its_polynomials_hold(name, arch):
    exact, low, high = DOMAINS[name]
    x = torch.linspace(low, high, 4001).bfloat16().float()
    found, wanted = FUNCTIONS[name](Sfpu(arch, wide=False), x), exact(x.double()).float()
    torch.testing.assert_close(found, wanted, rtol=0.016, atol=1e-4)


@pytest.mark.parametrize(("name", "exact"), [("fmod", torch.fmod), ("remainder", torch.remainder)])
def test_remainders_of_whole_numbers_of_one_sign_are_exact_and_undefined_for_zero(name, exact):
    """Of two signs, tt-metal's `remainder` gives the divisor where the quotient is whole and its reciprocal is not."""
    a, b = torch.cartesian_prod(torch.arange(0.0, 41.0), torch.arange(0.0, 8.0)).T
    a, b = torch.cat([a, -a]), torch.cat([b, -b])
    for arch in ("wormhole", "blackhole"):
        found = PAIRS[name](Sfpu(arch, wide=True), a, b)
        assert torch.equal(found[b != 0], exact(a, b)[b != 0])
        assert found[b == 0].isnan().all()


def test_an_operation_is_known_by_its_name_and_its_numbers():
    assert find("clamp min=-1.0,max=1.0") is not None
    assert find("polygamma k=2") is not None
    assert find("clamp least=3") is None
    assert find("no_such_op") is None


def test_an_operation_in_place_is_the_operation():
    assert find("add_") is find("add")
    assert find("clamp_ min=0,max=1") is not None
    assert find("nothing_") is find("_") is None


def test_numbers_by_another_name_are_read_where_there_is_one_and_selu_has_ttnns_own():
    assert find("softshrink lambd=0.25") is not None
    assert find("rdiv number=2.0") is not None
    assert find("clamp low=0.0,high=1.0") is None
    ours = FUNCTIONS["selu"](Sfpu("wormhole", wide=True), torch.tensor([2.0]))
    assert ours.item() == pytest.approx(2 * 1.0507, rel=1e-7)
