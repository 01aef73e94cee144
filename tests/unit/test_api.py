"""`benchmark` from Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import proveout
from proveout.errors import CaptureError, UsageError


@pytest.mark.slow
def test_a_live_model_is_checked_and_timed() -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 32).eval()
    result = proveout.benchmark_model(model, {"input": torch.randn(1, 64)}, iterations=3)
    assert result.passed
    assert (result.latency_kind, result.latency_units, result.throughput_units) == (
        "modelled",
        "milliseconds",
        "calls per second",
    )
    assert result.mean_latency is not None
    assert result.throughput == pytest.approx(1e3 / result.mean_latency)
    assert result.record.pcc is not None
    assert result.record.pcc > 0.99
    assert str(result).startswith("Linear on sim:n150: ")


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["eager", pytest.param("inductor", marks=pytest.mark.whole)])
def test_another_runtime_is_measured_on_the_cpu(runtime: str) -> None:
    result = proveout.benchmark_model(nn.Linear(4, 4), torch.ones(1, 4), runtime=runtime, duration_s=0.05)  # type: ignore[arg-type]
    assert result.passed, result.record.reason
    assert (result.record.job.device, result.latency_kind) == ("cpu", "measured")
    assert result.mean_latency is not None


@pytest.mark.slow
def test_a_jit_module_is_timed_and_told_apart() -> None:
    scripted = torch.jit.script(nn.Linear(4, 4))
    result = proveout.benchmark_model(scripted, torch.ones(1, 4), iterations=2)
    assert (result.record.status, result.record.failure) == ("failed", "capture")
    assert "only Python modules can be compiled" in result.record.reason
    assert result.mean_latency is None
    assert result.original_latency is not None


@pytest.mark.parametrize(
    ("model", "wrong", "says"),
    [
        (nn.Conv1d(4, 4, 1), torch.ones(1, 4, 8, dtype=torch.float16), r"Input type .*Half.* and bias type"),
        (nn.Linear(4, 4), torch.ones(1, 5), r"\[1, 5\] X \[4, 4\]"),
    ],
)
def test_inputs_that_a_model_does_not_take_are_told_in_its_ops_words(
    model: nn.Module, wrong: torch.Tensor, says: str
) -> None:
    with pytest.raises(CaptureError, match=f"could not capture the model: .*{says}"):
        proveout.compile(model, (wrong,))


@pytest.mark.slow
def test_a_script_is_benchmarked_and_kept(tmp_path: Path) -> None:
    how = {"search_dir": "selftest", "iterations": 2, "cache_dir": tmp_path, "small": True}
    (first,) = proveout.benchmark_script("linear.py", **how)
    assert first.passed
    assert first.record.job.workload.script_args == "--small"
    (second,) = proveout.benchmark_script("linear.py", **how)
    assert second.record.created == first.record.created, "it was in the cache"


def test_two_devices_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="one device a call"):
        proveout.benchmark_model(nn.Linear(2, 2), torch.ones(1, 2), device="sim,cpu")
