"""Kernels in `faithful`: what each computes, and that docs/explain/numerics.md says of every one how close it is."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from proveout.chip.specs import CHIPS
from proveout.kernels.faithful import Compute, elements
from proveout.kernels.faithful.norms import batch_norm
from proveout.kernels.faithful.products import transposed_convolution
from proveout.kernels.faithful.reductions import extreme
from proveout.kernels.faithful.settings import for_convolution
from proveout.kernels.table import kernels
from proveout.types import DRAM, TensorSpec

PAGE = Path(__file__).parents[2] / "docs" / "explain" / "numerics.md"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(("groups", "stride", "extra"), [(1, (1, 1), (0, 0)), (2, (2, 3), (1, 0))])
def test_a_transposed_convolution_is_torchs_up_to_the_chips_rounding(groups, stride, extra):
    x, weight = torch.randn(2, 4, 5, 6).bfloat16(), torch.randn(4, 6 // groups, 3, 2).bfloat16()
    bias = torch.randn(6).bfloat16()
    how = {"stride": stride, "padding": (1, 0), "output_padding": extra, "dilation": (1, 2), "groups": groups}
    wanted = F.conv_transpose2d(x.double(), weight.double(), bias.double(), **how)
    call = {"in_channels": 4, "out_channels": 6, "batch_size": 2, "input_height": 5, "input_width": 6}
    flat = x.permute(0, 2, 3, 1).reshape(1, 1, -1, 4)
    found = transposed_convolution(
        "ttnn.conv_transpose2d", Compute("HiFi4"), flat, weight, kernel_size=(3, 2), bias_tensor=bias, **call, **how
    )
    assert relative(found.reshape(2, *wanted.shape[2:], 6).permute(0, 3, 1, 2), wanted) < 0.01


def test_a_convolution_without_a_config_is_hifi4_and_takes_a_row_of_its_window_at_a_time():
    def settings(dtype: str, **config: object) -> Compute:
        specs = {
            "input_tensor": TensorSpec((1, 1, 64, 20), dtype, "tile", DRAM),
            "weight_tensor": TensorSpec((8, 20, 3, 3), dtype),
            "in_channels": 20,
            "kernel_size": (3, 3),
        }
        return for_convolution(specs, TensorSpec((1, 1, 64, 8), dtype, "tile", DRAM), CHIPS["n150"], None)

    found = settings("bfloat16")
    assert (found.fidelity, found.fp32_dest, found.l1_acc, found.block_tiles) == ("HiFi4", False, False, 3)
    assert settings("float32").fp32_dest


def test_a_batch_norm_is_torchs_up_to_the_chips_rounding():
    x = torch.randn(2, 5, 6, 7).bfloat16()
    parts = [torch.rand(1, 5, 1, 1).add(0.5).bfloat16() for _ in range(4)]
    mean, variance, weight, bias = parts
    found = batch_norm("ttnn.batch_norm", Compute("HiFi4"), x, mean, variance, 1e-5, weight, bias)
    flat = [t.double().flatten() for t in parts]
    assert relative(found, F.batch_norm(x.double(), *flat)) < 0.01


@pytest.mark.parametrize("dim", [None, -1, (0, 2)])
@pytest.mark.parametrize("name", ["max", "min"])
def test_the_largest_and_the_smallest_are_exact_in_bfloat16(name, dim):
    x = torch.randn(3, 40, 33).bfloat16()
    x[0, 0, 0], x[1, 1, 1] = math.inf, -math.inf
    wanted = getattr(torch, f"a{name}")(x, tuple(range(3)) if dim is None else dim, True)
    assert torch.equal(extreme(f"ttnn.{name}", Compute("HiFi4", True), x, dim, True), wanted)


def test_a_nan_is_a_number_above_infinity_to_the_pool_and_denormals_are_0():
    x = torch.tensor([[math.nan, math.inf], [-1e-40, -0.0]])
    found = extreme("ttnn.max", Compute("HiFi4", True, out="float32"), x, 1)
    assert torch.isnan(found[0])
    assert found[1].item() == 0.0


def test_a_quotient_is_rounded_once_to_nearest_even_in_bfloat16():
    a, b = torch.randn(1000).bfloat16(), torch.randn(1000).bfloat16()
    found = elements.binary("ttnn.div", Compute("HiFi4"), a, input_tensor_b=b)
    assert torch.equal(found, (a.double() / b.double()).bfloat16())
    ends = torch.tensor([1.0, -1.0, 0.0]).bfloat16()
    zero = elements.binary("ttnn.div", Compute("HiFi4"), ends, value=0.0)
    assert zero[:2].tolist() == [math.inf, -math.inf]
    assert not torch.isfinite(zero[2])


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_the_larger_and_the_smaller_are_exact(name):
    a, b = torch.randn(1000).bfloat16(), torch.randn(1000).bfloat16()
    found = elements.binary(f"ttnn.{name}", Compute("HiFi4"), a, input_tensor_b=b)
    assert torch.equal(found, getattr(torch, name)(a, b))


def test_small_whole_powers_are_products_and_others_go_by_the_logarithm():
    x = torch.rand(500).add(0.5).bfloat16()
    compute = Compute("HiFi4")
    assert relative(elements.power("ttnn.pow", compute, x, 2), x.double() ** 2) < 0.005
    assert relative(elements.power("ttnn.pow", compute, x, 2.5), x.double() ** 2.5) < 0.005
    assert relative(elements.power("ttnn.pow", compute, x, x), x.double() ** x.double()) < 0.005
    assert not torch.isfinite(elements.power("ttnn.pow", compute, -x, 2.5).float()).any()
    wide = Compute("HiFi4", True, out="float32")
    assert relative(elements.power("ttnn.pow", wide, x.float(), 2.5), x.double() ** 2.5) < 1e-5


def told() -> dict[str, str]:
    """Kernel -> how the page says that `faithful` computes it."""
    section = PAGE.read_text().split("## Which kernels, and how close")[1].split("\n## ")[0]
    found = {}
    for line in section.splitlines():
        if line.startswith("| **"):
            how = line.split("**")[1]
            found.update({f"ttnn.{name}": how for name in re.findall(r"`([\w.]+)`", line.split("|")[2])})
    return found


def test_the_page_says_what_the_code_does():
    """What it does not name is torch's, rounded once."""
    own = {name for name, row in kernels().items() if row.faithful is not None}
    page = told()
    assert {name for name, how in page.items() if how in ("bit by bit", "published steps")} == own
    assert {name for name, how in page.items() if how in ("torch's, exact", "torch's")} <= set(kernels()) - own
    assert set(page.values()) == {"bit by bit", "published steps", "torch's, exact", "torch's"}
