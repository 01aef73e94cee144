"""Generated op tests draw numbers that bfloat16 holds, so that calls that jump are exact."""

from __future__ import annotations

import pytest
import torch

from proveout.bringup.op_tests_text import HEAD
from proveout.bringup.testing import written_module
from proveout.check.thresholds import of_these_numbers, threshold

NUMBERS = "T((4, 32, 64), ttnn.bfloat16, ttnn.{layout}_LAYOUT, 'dram', Normal(-2.961e-05, 1, -3.625, 3.781))"
CASES = {
    "argmax": ("input_tensor", "ROW_MAJOR", "'dim': 2, 'keepdim': False"),
    "gt": ("input_tensor_a", "TILE", "'input_tensor_b': 0.1, 'dtype': ttnn.int32"),
    "lt": ("input_tensor_a", "TILE", "'input_tensor_b': 0.02, 'dtype': ttnn.int32"),
    "round": ("input_tensor", "TILE", ""),
}


@pytest.mark.parametrize("function", CASES)
def test_a_call_that_jumps_is_exact_on_the_operands_that_it_is_given(function, tmp_path):
    """In bfloat16 some of 8,192 numbers lie on the other side of a threshold, and some of the largest are equal."""
    name, layout, attributes = CASES[function]
    case = f"'x': Case(lambda: ttnn.{function}, {{{name!r}: {NUMBERS.format(layout=layout)}}}, "
    (tmp_path / "ops.py").write_text(HEAD.format(name="x", cases=f"{case}lambda device: {{{attributes}}})"))
    with written_module(tmp_path / "ops.py") as ops:
        device = ops.open_device()
        try:
            ((found, wanted),) = ops.run(device, ops.CASES["x"])
        finally:
            ops.ttnn.close_device(device)
    assert torch.equal(found.to(wanted.dtype), wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "bfloat8_b"])
def test_numbers_close_together_are_held_to_what_their_format_can_tell_apart(dtype):
    """A cosine of small angles: bfloat16 keeps its values to 0.4 %, and they differ in a few per cent."""
    angles = torch.randn(2, 16, generator=torch.Generator().manual_seed(0)) * 0.15
    cosines = torch.cos(angles)
    least = threshold("ttnn.cos", dtype)
    own = of_these_numbers(least, cosines, dtype)
    assert 0.85 < own.pcc < least.pcc
    assert dtype in own.origin
    assert of_these_numbers(least, angles, dtype) == least, "numbers around zero keep the format's threshold"
