"""Units in the last place, shares within tolerance, the first NaN, and thresholds with their origin."""

from __future__ import annotations

import pytest
import torch

import proveout
from proveout.check import compare_outputs, first_nonfinite
from proveout.check.compare import compare
from proveout.check.thresholds import threshold


def test_differences_are_told_in_units_in_the_last_place_of_the_coarser_dtype():
    wanted = torch.tensor([1.0, 2.0, 4.0])
    off_by_one = torch.tensor([1.0, 2.0, 4.0 + 2**-5]).to(torch.bfloat16)
    assert compare(off_by_one, wanted, name="x", threshold=0.9).max_ulp == 1.0
    assert compare(off_by_one.float(), wanted, name="x", threshold=0.9, ulp_of=torch.bfloat16).max_ulp == 1.0
    assert compare(off_by_one.float(), wanted, name="x", threshold=0.9).max_ulp == 2.0**16


def test_subnormal_differences_are_told_in_the_smallest_unit():
    tiny = torch.finfo(torch.float32).smallest_normal
    found = compare(torch.tensor([0.0, tiny]), torch.tensor([0.0, 0.0]), name="x", threshold=0.9)
    assert found.max_ulp == 2.0**23


def test_the_share_within_tolerance_is_told():
    wanted = torch.arange(1.0, 11.0)
    found = wanted.clone()
    found[:3] *= 1.5
    assert compare(found, wanted, name="x", threshold=0.9).within == 0.7


def test_the_first_call_that_makes_a_nan_is_found_and_a_mask_is_not_blamed():
    class Model(torch.nn.Module):
        def forward(self, x, mask):
            scores = x + mask
            weights = torch.softmax(scores, -1)
            return torch.relu(torch.log(weights - 0.5))

    x, mask = torch.randn(32, 32), torch.zeros(32, 32)
    mask[:, 16:] = -torch.inf
    compiled = proveout.compile(Model().eval(), (x, mask), settings={"precision": "bfloat16"})
    runs = []
    with compiled.watching(lambda variant, arguments: runs.append((variant, list(arguments)))):
        compiled(x, mask)
    ((variant, arguments),) = runs
    inputs = [arguments[i] for i in variant.compiled.input_positions]
    found = first_nonfinite(variant.ready(arguments), inputs)
    assert found is not None
    assert (found.kernel, found.kind) == ("ttnn.log", "NaN")
    assert "test_check_numbers.py" in str(found)


@pytest.mark.parametrize(
    ("kernel", "dtype", "fidelity", "least"),
    [
        ("ttnn.linear", "bfloat16", None, 0.999),
        ("ttnn.linear", "bfloat16", "LoFi", 0.99),
        ("ttnn.linear", "bfloat4_b", "LoFi", 0.95),
        ("ttnn.gelu", "bfloat16", "LoFi", 0.999),
        ("ttnn.argmax", "uint32", None, 1.0),
    ],
)
def test_thresholds_follow_format_and_fidelity_and_say_why(kernel, dtype, fidelity, least):
    found = threshold(kernel, dtype, fidelity)
    assert found.pcc == least
    assert found.origin


class Slots:
    __slots__ = ("logits",)

    def __init__(self, logits):
        self.logits = logits


@pytest.mark.parametrize("inside", [Slots, lambda t: t.numpy(), lambda t: [Slots(t.numpy())]])
def test_outputs_in_slots_and_in_numpy_are_compared_too(inside):
    seen, same = torch.randn(4), torch.ones(3)
    assert all(c.passed for c in compare_outputs((same, inside(seen)), (same, inside(seen.clone())), 0.99))
    wrong = compare_outputs((same, inside(-seen)), (same, inside(seen)), 0.99)
    assert [c.passed for c in wrong] == [True, False]
