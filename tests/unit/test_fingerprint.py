"""Probes find from outside what the modelled chip's rules and torch's are."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch

from proveout.check import fingerprint
from proveout.check.fingerprint import fingerprints, probe
from proveout.cli import main
from proveout.errors import UsageError
from proveout.kernels.arithmetic.matrix import Unit
from proveout.kernels.arithmetic.products import matmul


@pytest.mark.parametrize(
    ("arch", "wide", "bits", "rounding", "ones", "minus_one", "verdict"),
    [
        ("wormhole", False, 8, "away from zero", 8192, None, "a Tensix matrix unit, 16-bit destination"),
        ("wormhole", True, 24, "up", 6144, -16, "Wormhole's matrix unit, float32 destination"),
        ("blackhole", True, 24, "up", 6144, -(2.0**-23), "Blackhole's matrix unit, float32 destination"),
    ],
)
def test_the_chips_rules_are_found_blind(arch, wide, bits, rounding, ones, minus_one, verdict):
    unit = Unit(arch, 1, wide)
    dtype = torch.float32 if wide else torch.bfloat16
    found = probe("it", dtype, lambda a, b: matmul(a[None], b[None], unit)[0])
    assert (found.step, found.group, found.kept_bits, found.destination_bits) == (16, 8, 10, bits)
    assert (found.rounding, found.infinity, found.ones) == (rounding, "a large number", ones)
    assert minus_one is None or found.minus_one == minus_one
    assert found.verdict == verdict


def test_torch_on_the_cpu_adds_in_float32_one_after_another():
    for found in fingerprints("cpu"):
        assert (found.step, found.destination_bits, found.rounding) == (1, 24, "to even")
        assert found.verdict == "IEEE float32 sums"


def tensor_core(a: torch.Tensor, b: torch.Tensor, block: int = 16, bits: int = 25) -> torch.Tensor:
    """Blocks of 16 products and the running sum aligned to the largest, cut to so many bits, added, and cut again: what
    others found of recent tensor cores."""
    terms = (a.double() * b.double().t()).flatten().tolist()
    if any(not math.isfinite(t) for t in terms):
        return torch.tensor([[sum(terms)]])

    def cut(x: float, unit: int) -> int:
        return int(Fraction(x) / Fraction(2) ** unit)

    total = 0.0
    for first in range(0, len(terms), block):
        here = [total, *terms[first : first + block]]
        unit = max(math.frexp(t)[1] for t in here) - bits
        exact = sum(cut(t, unit) for t in here)
        drop = max(0, abs(exact).bit_length() - 24)
        total = math.ldexp(int(math.copysign(abs(exact) >> drop << drop, exact)), unit)
    return torch.tensor([[total]])


@pytest.mark.parametrize("result", [torch.float64, torch.float32, torch.bfloat16])
def test_a_tensor_core_is_told_from_ieee_sums_and_from_a_tensix(result):
    """Also where the result is rounded to bfloat16, as torch.matmul's is: that rounding is not the sum's. An H200
    keeps 25 bits."""
    found = probe("it", torch.bfloat16, lambda a, b: tensor_core(a, b, bits=26).to(result))
    assert (found.step, found.group, found.kept_bits, found.destination_bits) == (16, 16, 25, 24)
    assert (found.rounding, found.infinity) == ("cut", "special")
    assert found.verdict == "a tensor core: products aligned with the running sum, and cut"


def test_the_way_of_a_device_of_torchs_is_told_by_where_its_tensors_lie(monkeypatch):
    gpu = SimpleNamespace(reason="", target="torch", name="cpu", family="cpu")  # whose tensors lie on the CPU
    monkeypatch.setattr(fingerprint, "find", lambda name: gpu)
    found = list(fingerprints("cuda"))
    assert [f.name for f in found] == ["cuda, torch.matmul", "cuda, torch.matmul"]
    assert [f.operands for f in found] == ["bfloat16", "float32"]


@pytest.mark.slow
def test_the_command_probes_a_modelled_chip_in_both_modes(capsys):
    assert main(["devices", "fingerprint", "sim", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["fingerprints"]
    assert [f["verdict"] for f in found] == [
        "IEEE float32 sums",
        "IEEE float32 sums",
        "a Tensix matrix unit, 16-bit destination",
        "Wormhole's matrix unit, float32 destination",
    ]
    with pytest.raises(UsageError):
        list(fingerprints("cpu:inductor"))
