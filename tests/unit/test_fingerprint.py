"""Probes find from outside what the modelled chip's rules and torch's are."""

from __future__ import annotations

import json

import pytest
import torch

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
