"""A NeuronPerf-style run is a Record: kept by default, and in reports, queries and comparisons like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import proveout
from proveout import cli
from proveout.columns.table import row
from proveout.store import Store
from proveout.types import Record

QUICK: dict[str, Any] = {"n_models": 1, "workers_per_model": 1, "multiprocess": False, "verbosity": 0, "warmup": 5}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


def served(**more: Any) -> list[dict[str, Any]]:
    return proveout.benchmark(Net, torch.ones(4, 8), **{**QUICK, "duration": 0.3, **more})


def kept() -> list[Record]:
    records, bad = Store().records()
    assert bad == []
    return records


@pytest.mark.slow
def test_a_run_is_kept_and_its_report_is_a_view_of_its_record() -> None:
    [report] = served()
    [record] = kept()
    assert proveout.get_reports([record]) == [json.loads(json.dumps(report))]
    assert (record.status, record.job.do, record.job.runtime, record.job.device) == (
        "passed",
        ("serve",),
        "eager",
        "cpu",
    )


@pytest.mark.slow
def test_the_record_s_time_has_the_report_s_interval_and_its_samples() -> None:
    [report] = served()
    [record] = kept()
    timing = record.timing("eager")
    assert timing is not None
    assert timing.kind == "measured"
    assert timing.interval_ns == pytest.approx([report[f"latency_ms_p50_{end}"] * 1e6 for end in ("low", "high")])
    assert timing.verdict in ("steady", "unsteady", "too few")
    assert bool(timing.why) == (timing.verdict != "steady")
    assert len(timing.samples_ns) <= 20_000
    assert timing.median_ns / 1e6 == pytest.approx(report["latency_ms_p50"], rel=0.3)


@pytest.mark.slow
def test_keep_false_leaves_nothing() -> None:
    served(keep=False)
    served(keep=False, return_timers=True)
    assert kept() == []


@pytest.mark.slow
def test_timers_are_kept_as_well() -> None:
    [outcome] = served(return_timers=True)
    assert outcome.status == "passed"
    assert len(kept()) == 1


@pytest.mark.slow
def test_each_configuration_is_a_record_of_its_own_and_a_second_run_replaces_it() -> None:
    for _ in range(2):
        served(workers_per_model=[1, 2])
    assert sorted(str(row(r).load) for r in kept()) == ["b4 n1 w1", "b4 n1 w2"]


def test_a_cache_that_cannot_be_written_costs_no_result(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    [report] = served(cache_dir=tmp_path / "file" / "cache", verbosity=1)
    assert report["status"] == "passed"
    assert "Not kept: cannot write to the cache" in capfd.readouterr().err


def test_a_model_that_fails_is_a_failed_record_with_its_reason() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("wrong today")

    [report] = proveout.benchmark(broken, torch.ones(4, 8), **QUICK, duration=0.2)
    [record] = kept()
    assert (record.status, record.timings) == ("failed", ())
    assert record.reason == report["reason"]
    assert "wrong today" in record.reason


@pytest.mark.slow
def test_what_sim_serves_keeps_modelled_and_measured_apart() -> None:
    [report] = proveout.sim.benchmark(Net, torch.ones(4, 8), **QUICK, duration=0.3)
    [record] = kept()
    compiled, simulation = record.timing("compiled"), record.timing("simulation")
    assert compiled is not None
    assert simulation is not None
    assert (compiled.kind, compiled.verdict, simulation.kind) == ("modelled", "predicted", "measured")
    assert compiled.median_ns / 1e6 == pytest.approx(report["device_modelled_ms_p50"], rel=1e-6)
    assert compiled.interval_ns is not None
    assert compiled.interval_ns[0] <= compiled.median_ns <= compiled.interval_ns[1]
    assert record.pcc == pytest.approx(report["worst_pcc"])


@pytest.mark.slow
def test_report_query_and_compare_know_it_without_another_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served(workers_per_model=[1, 2])
    assert cli.main(["query", "select load from records where throughput > 0 order by load"]) == 0
    assert [line.strip() for line in capsys.readouterr().out.splitlines()][-2:] == ["b4 n1 w1", "b4 n1 w2"]
    assert cli.main(["report", "-o", str(tmp_path / "report")]) == 0
    assert "Net b4 n1 w2" in (tmp_path / "report" / "report.md").read_text()
    capsys.readouterr()
    assert cli.main(["compare", "Net b4 n1 w1", "Net b4 n1 w2"]) == 0
    assert "B ÷ A" in capsys.readouterr().out


@pytest.mark.slow
def test_a_result_of_the_cache_is_compared_with_another_one_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served()
    script = tmp_path / "net.py"
    script.write_text("import torch\nm = torch.nn.Linear(2, 2)\nm(torch.ones(1, 2))\n")
    assert cli.main(["compare", "Net b4 n1 w1", str(script)]) == 2
    assert "compare it with another one there" in capsys.readouterr().err
