"""`minimize`: few ops are left, the class of the failure stays, and the file fails alone in a process of its own."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import injected
import pytest
import torch
from planted import MODELS, places
from torch import nn

import proveout
from proveout.reduce.file import FAILS
from proveout.reduce.graph import fewest, flatten
from proveout.reduce.judge import Conditions, failure
from proveout.reduce.minimize import Minimized, minimize
from proveout.types import Settings

UNDER = Conditions("sim:n150", Settings(precision="bfloat16"))
HERE = Path(__file__).parent


Fault = tuple[tuple[str, ...], str, int]
"""Kernels that fail together, class, fewest elements."""


def fault(seed: int, draw: int) -> tuple[nn.Module, torch.Tensor, Fault]:
    """A model, its input, and a fault of one kernel, or of two or three that run one after another."""
    drawn = random.Random(seed + 1000 * draw)
    torch.manual_seed(0)
    kind, shape = MODELS[list(MODELS)[seed % len(MODELS)]]
    model, x = kind().eval(), torch.randn(shape)
    program = proveout.compile(model, (x,), device="sim:n150", settings=UNDER.settings).program
    order = list(dict.fromkeys(step.kernel for step in places(program, "scaled by 1.01")))
    length = min(1 + seed % 3, len(order))
    chain = tuple(order[i] for i in sorted(drawn.sample(range(len(order)), length)))
    return model, x, (chain, injected.CLASSES[seed // len(MODELS) % len(injected.CLASSES)], drawn.choice((0, 64)))


def minimized(seed: int, draw: int = 0) -> tuple[Minimized, Fault]:
    """Of the first fault drawn that the model fails by: wrong numbers in a small branch may pass."""
    model, x, what = fault(seed, draw)

    def anew(*args: Any) -> Any:
        injected.begin()
        return failure(*args)

    injected.inject(*what)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("proveout.reduce.minimize.failure", anew)
            found = minimize(model, (x,), {}, UNDER, injected.preamble(*what))
    finally:
        injected.restore()
    if found is None:
        return minimized(seed, draw + 1)
    assert found.failure.kind == what[1]
    return found, what


def runs_alone(text: str, folder: Path) -> int:
    path = folder / "minimized.py"
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    return subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, timeout=120).returncode


@pytest.mark.slow
def test_few_ops_are_left_of_a_fault_and_its_class_stays():
    for seed in (5, 18):
        found, _ = minimized(seed)
        assert len(found.ops) <= 3
        assert found.elements < found.elements_before


@pytest.mark.slow
def test_the_file_fails_alone_and_no_more_once_the_fault_is_gone(tmp_path: Path):
    found, what = minimized(20)
    assert runs_alone(found.text, tmp_path) == FAILS
    mended = found.text.replace(injected.preamble(*what), "")
    assert runs_alone(mended, tmp_path) == 0


@pytest.mark.fuzz
def test_of_50_faults_the_median_has_3_ops_and_every_file_fails_alone(tmp_path: Path):
    ops = []
    for seed in range(50):
        found, (chain, kind, _) = minimized(seed)
        path = tmp_path / f"fault{seed}.py"
        path.write_text(found.text)
        assert injected.exit_code(path) == FAILS, found.text
        ops.append(len(found.ops))
        print(f"{seed:2} {kind:8} {found.ops_before:3} ops → {len(found.ops)}: {', '.join(chain)}", flush=True)
    print(f"{len(ops)} faults, each class kept: {statistics.median(ops):g} ops left at the median, {max(ops)} at most")
    assert statistics.median(ops) <= 3


def test_two_ops_that_fail_only_together_both_stay():
    assert fewest(40, lambda chosen: {7, 31} <= set(chosen)) == [7, 31]
    assert fewest(1, lambda chosen: True) == [0]
    assert fewest(9, lambda chosen: 4 in chosen) == [4]


def test_what_does_not_fail_has_no_file():
    assert minimize(nn.Linear(8, 8).eval(), (torch.randn(4, 8),), {}, UNDER) is None


def test_a_modelled_time_above_the_limit_is_a_failure_of_its_own():
    model, x = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)).eval(), torch.randn(32, 64)
    slow = Conditions("sim:n150", UNDER.settings, 1000)
    found = minimize(model, (x,), {}, slow)
    assert found is not None
    assert found.failure.kind == "slow"
    assert len(found.ops) == 1


@pytest.mark.slow
def test_weights_stay_weights_so_that_their_format_can_be_at_fault():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.Tanh()).eval(), torch.randn(32, 64)
    packed = Conditions("sim:n150", Settings(precision="bfloat16", weights="bfloat4_b", pcc=0.999))
    found = minimize(model, (x,), {}, packed)
    assert found is not None
    assert found.failure.kind == "pcc"
    assert len(found.ops) <= 2
    assert "self." in found.text
    assert "PCC" in found.failure.message
    assert found.failure.sign == "low"  # one number alone would be off as well, without a PCC


def test_an_op_without_a_kernel_is_found_where_fallbacks_are_errors():
    class Sorts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(torch.relu(x) @ x.T) * 2

    strict = Conditions("sim:n150", Settings(precision="bfloat16", fallback="error"))
    found = minimize(Sorts(), (torch.randn(8, 8),), {}, strict)
    assert found is not None
    assert found.failure.kind == "refusal"
    assert len(found.ops) == 1
    assert "svd" in found.ops[0]


def test_a_call_as_aten_calls_gives_what_the_model_gives():
    kind, shape = MODELS["transformer"]
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(shape)
    calls = flatten(model, (x,), {})
    (found,) = calls.module()(*calls.given)
    assert torch.allclose(found, model(x), atol=1e-6)
    assert failure(calls.module(), calls.given, UNDER) is None
