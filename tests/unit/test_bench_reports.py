"""Claims about a benchmark's reports: right definitions, a reason for every gap, nothing lost on a full disk."""

from __future__ import annotations

import csv
import dataclasses
import errno
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bench_outcomes import BEGAN, noisy, open_loop, outcome, worker
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proveout.clock.statistics import summarise
from proveout.errors import EnvironmentFault, UsageError
from proveout.measure.outcome import OutputCheck
from proveout.measure.reports import get_report_by_tag, get_reports, reports
from proveout.report import bench
from proveout.serving import Load

GOOD = outcome(worker(0, noisy(0)))


def report(*args, **kwargs):
    return reports([outcome(*args, **kwargs)])[0]


def test_throughput_is_completed_items_by_elapsed_even_with_a_stall_of_4_s():
    times = noisy(1)
    times[1000] += 4_000_000_000
    told = report(worker(0, times), batch_size=8)
    exact = len(times) * 8 / (times.sum() / 1e9)
    assert told["throughput_avg"] == pytest.approx(exact, rel=1e-3)
    assert told["throughput_avg"] == pytest.approx(told["total_infs"] / told["total_s"])
    assert told["throughput_peak"] > 1.3 * told["throughput_avg"], "the best second has no stall in it"


def test_the_peak_is_at_least_the_average_of_any_run_of_a_second_or_more():
    steady = report(worker(0, np.full(2500, 1_000_000)))
    assert steady["throughput_peak"] == pytest.approx(1000, abs=1)
    assert steady["throughput_avg"] == pytest.approx(1000)


def test_a_run_shorter_than_a_second_has_no_peak_and_says_why():
    told = report(worker(0, noisy(2, 200)))
    assert told["throughput_peak"] is None
    assert "shorter than one second" in told["reasons"]["throughput_peak"]


def test_latency_is_that_of_every_measured_call_of_all_workers():
    times = [noisy(seed, 1500) for seed in range(3)]
    told = report(*(worker(i, t, model=i) for i, t in enumerate(times)))
    everything = np.concatenate(times)
    assert told["total_calls"] == told["total_infs"] == len(everything)
    assert told["latency_ms_p0"] == everything.min() / 1e6
    assert told["latency_ms_p100"] == everything.max() / 1e6
    assert told["latency_ms_p50"] == pytest.approx(np.median(everything) / 1e6)
    assert told["e2e_avg_ms"] == pytest.approx(everything.mean() / 1e6)
    assert told["infer_avg_ms"] == told["e2e_avg_ms"], "there is nothing else in a call"


def test_every_headline_number_has_its_interval():
    told = reports([GOOD])[0]
    for name in ("throughput_avg", "latency_ms_p50", "latency_ms_p99", "e2e_avg_ms", "infer_avg_ms"):
        assert told[f"{name}_low"] <= told[name] <= told[f"{name}_high"], name
    assert told["verdict"] == "VALID", told["verdict_reasons"]
    assert told["latency_ms_iqr"] > told["latency_ms_mad"] > 0


def test_a_percentile_that_the_sample_cannot_support_is_null_with_the_number_it_needs():
    told = report(worker(0, noisy(3, 150)))
    assert told["latency_ms_p50"] is not None
    assert told["latency_ms_p99"] is None
    assert "needs" in told["reasons"]["latency_ms_p99"]


def test_warm_up_inside_the_measured_phase_is_counted_and_told_and_in_every_number():
    times = noisy(4)
    times[:60] *= 20
    told = report(worker(0, times))
    assert told["settling_calls"] >= 60
    assert told["latency_ms_p100"] == times.max() / 1e6
    assert any("differ from the rest" in note for note in told["notes"])


def test_an_open_loop_counts_from_the_intended_start_and_reports_service_beside_it():
    service = np.full(2000, 1_000_000)
    service[500] = 101_000_000
    told = reports([open_loop(2_000_000, service)])[0]
    assert told["latency_ms_p100"] == pytest.approx(101), "the stalled call"
    assert told["service_ms_p50"] == pytest.approx(1)
    waited = told["waited_avg_ms"] * told["total_calls"]
    gap, stall = 2.0, 100.0
    # behind a stall S each request waits (gap − service) less than the last: S² ÷ 2(gap − service), less half a step
    assert waited == pytest.approx(sum(max(0, stall - k) for k in range(1, 101)) - 0, rel=0.02)
    assert waited == pytest.approx(stall**2 / (2 * (gap - 1)), rel=0.02)
    assert told["e2e_avg_ms"] == pytest.approx(told["service_avg_ms"] + told["waited_avg_ms"])


def test_an_offline_run_is_judged_by_its_service_times():
    times = noisy(11)
    run = worker(0, times)
    run = dataclasses.replace(run, intended_ns=np.full_like(run.starts_ns, BEGAN))
    told = report(run, load=Load("offline"))
    assert told["verdict"] == "VALID", told["verdict_reasons"]
    assert told["latency_ms_p100"] == pytest.approx(times.sum() / 1e6), "the last call waited for all others"
    assert any("offline" in note for note in told["notes"])


def test_a_closed_loop_has_no_waiting_time_and_says_so():
    told = reports([GOOD])[0]
    assert told["waited_avg_ms"] is None
    assert "closed loop" in told["reasons"]["waited_avg_ms"]


def test_modelled_and_measured_device_times_have_columns_of_their_own():
    run = dataclasses.replace(worker(0, noisy(5)), device_ns=np.full(3000, 700_000))
    for kind, other in (("modelled", "measured"), ("measured", "modelled")):
        told = report(run, device_kind=kind)
        assert told[f"device_{kind}_ms_p50"] == pytest.approx(0.7)
        assert told[f"device_{other}_ms_p50"] is None
        assert kind in bench.render_csv([told]).splitlines()[1]


def test_parts_of_a_call_are_told_alone():
    times = noisy(6)
    run = dataclasses.replace(
        worker(0, times), preprocess_ns=times // 4, infer_ns=times // 2, postprocess_ns=times // 4
    )
    told = report(run)
    assert told["infer_avg_ms"] == pytest.approx(told["e2e_avg_ms"] / 2, rel=1e-3)
    assert told["preprocess_avg_ms"] == pytest.approx(told["postprocess_avg_ms"])


def test_a_worker_that_died_leaves_its_samples_and_a_verdict():
    dead = worker(1, noisy(8, 500), model=1, reason="was killed by SIGSEGV", exit_code=-11, log="Fatal error")
    told = report(worker(0, noisy(7), model=0), dead, status="partial", reason="1 of 2 models ended early")
    assert (told["total_calls"], told["live_models"], told["n_models"]) == (3500, 1, 2)
    assert told["verdict"] == "INVALID"
    assert told["verdict_reasons"][0]["found"] == "1 of 2 models ended early"
    assert told["workers"][1]["exit_code"] == -11


def test_a_fast_wrong_model_is_a_failure():
    told = reports([dataclasses.replace(GOOD, check=OutputCheck(20, 3, 0.71, "PCC 0.71 where 0.99 was asked"))])[0]
    assert told["status"] == "failed"
    assert "3 of 20 outputs are wrong" in told["reason"]
    assert told["verdict"] == "INVALID"


def test_a_configuration_that_completed_nothing_still_has_a_report():
    told = report(status="failed", reason="ValueError: no such weights")
    assert told["throughput_avg"] is None
    assert "no such weights" in told["reasons"]["throughput_avg"]
    assert told["status"] == "failed"
    assert "no such weights" in bench.table([told])


def test_cost_is_that_of_a_million_items():
    told = report(worker(0, np.full(2000, 1_000_000)), batch_size=4, cost_per_hour=3.6)
    assert told["cost_per_1m_inf"] == pytest.approx(3.6 / (4000 * 3600) * 1e6)
    assert reports([GOOD])[0]["cost_per_1m_inf"] is None
    assert get_reports([GOOD], cost_per_hour=1.0)[0]["cost_per_1m_inf"] > 0


def test_resources_are_summarised_and_energy_is_a_difference():
    sampled = (("cpu_percent", (50.0, 100.0, 150.0)), ("energy_j", (10.0, 20.0, 40.0)), ("rss_bytes", (1e6, 3e6)))
    told = report(worker(0, noisy(0)), resources=sampled)
    assert (told["cpu_avg_percent"], told["cpu_percent_p100"]) == (100.0, 150.0)
    assert (told["energy_j"], told["rss_peak_bytes"]) == (30.0, 3e6)
    assert told["energy_j_per_inf"] == pytest.approx(30 / 3000)


def test_a_harness_as_slow_as_the_model_is_named():
    told = report(worker(0, noisy(0, median_ns=3000)), overhead_ns=300.0)
    assert told["overhead_share"] == pytest.approx(0.1, rel=0.02)
    assert any(p["kind"] == "harness overhead" for p in told["verdict_reasons"])


@settings(max_examples=40, deadline=None)
@example([[0]], "passed")
@example([[0, 1]], "passed")
@given(st.lists(st.lists(st.integers(0, 10**10), max_size=30), max_size=3), st.sampled_from(["passed", "partial"]))
def test_any_stamps_give_strict_json_and_every_null_has_its_reason(workers, status):
    told = report(*(worker(i, t, model=i) for i, t in enumerate(workers)), status=status)
    loaded = json.loads(bench.render_json([told]), parse_constant=pytest.fail)[0]
    assert loaded == told
    for name, value in told.items():
        if value is None:
            assert told["reasons"][name], name
    assert bench.table([told])


def test_what_is_no_number_is_null_with_a_reason_in_json():
    told = reports([GOOD])[0] | {"own": float("nan"), "more": {"ratio": float("inf")}}
    loaded = json.loads(bench.render_json([told]), parse_constant=pytest.fail)[0]
    assert loaded["own"] is None
    assert loaded["reasons"]["own"] == "nan is no number"
    assert loaded["reasons"]["more.ratio"] == "inf is no number"


def test_ten_thousand_times_more_samples_change_no_definition():
    times = noisy(9, 200_000)
    told = report(worker(0, times[::2]), worker(1, times[1::2]))
    assert told["latency_ms_p99_9"] == pytest.approx(summarise(times).percentile(99.9).value / 1e6, rel=1e-9)


def test_a_busy_machine_is_noted_and_a_quiet_one_is_not():
    for pressure, notes in (("62.5 % of the last 10 s", 1), ("0.5 % of the last 10 s", 0)):
        told = report(worker(0, noisy(0)), conditions=(("cpu_pressure", pressure),))
        assert len([n for n in told["notes"] if "busy" in n]) == notes


# ------------------------------------------------------------------------------------------------ the table


def several():
    return reports(
        [
            outcome(worker(0, noisy(0, median_ns=4e6))),
            outcome(worker(0, noisy(1, median_ns=2e6))),
            outcome(status="failed", reason="it broke"),
            outcome(worker(0, noisy(2, median_ns=3e6)), worker(1, noisy(3, median_ns=3e6))),
        ]
    )


def column(text, name):
    head, *lines = text.splitlines()
    start = head.index(name)
    return [line[start:].split()[0] for line in lines[:4]]


def test_the_table_has_the_seeds_eight_columns_in_its_order():
    head = bench.table(several()).splitlines()[0].split()
    assert head == [
        "throughput_avg", "latency_ms_p50", "latency_ms_p99", "n_models", "pipeline_size", "workers_per_model",
        "batch_size", "model_filename",
    ]  # fmt: skip


def test_rows_are_sorted_by_a_field_that_is_no_column_too_and_what_lacks_it_comes_last():
    up = column(bench.table(several(), sort_by="throughput_peak"), "throughput_avg")
    down = column(bench.table(several(), sort_by="throughput_peak", reverse=True), "throughput_avg")
    assert up[-1] == down[-1] == "–"
    assert [float(v) for v in up[:3]] == sorted(float(v) for v in up[:3])
    assert down[:3] == up[2::-1]


def test_a_wrong_column_or_sort_field_is_refused():
    with pytest.raises(UsageError, match="Did you mean 'throughput_avg'"):
        bench.table(several(), cols=["throughput_average"])
    with pytest.raises(UsageError, match="field to sort by"):
        bench.table(several(), sort_by="speed")


def test_verbosity_2_adds_configurations_and_each_workers_start_and_end(capsys):
    bench.print_reports(several(), verbosity=2)
    out = capsys.readouterr().out
    assert out.count("configuration: {") == 4
    assert out.count("started at 0.000 s, ended at") == 4
    assert "after 3000 calls" in out
    assert "no reports" in bench.table([])


def test_a_report_is_found_by_its_tag():
    all_of_them = several()
    assert get_report_by_tag(all_of_them, "net-cpu-b1-n1-w2") is all_of_them[3]
    assert get_report_by_tag("net-cpu-b1-n1-w2", all_of_them) is all_of_them[3]
    with pytest.raises(UsageError, match="valid: net-cpu-b1-n1-w1"):
        get_report_by_tag(all_of_them, "net-cpu-b8-n1-w1")
    with pytest.raises(UsageError, match="return_timers"):
        get_reports([3])


# ------------------------------------------------------------------------------------------------ files


def test_csv_holds_every_plain_field_and_json_everything(tmp_path):
    told = several()
    rows = list(csv.DictReader(Path(bench.write_csv(told, tmp_path / "a.csv")).read_text().splitlines()))
    assert len(rows) == 4
    plain = {k for k, v in told[0].items() if not isinstance(v, dict | list)}
    assert set(rows[0]) == plain
    assert float(rows[0]["throughput_avg"]) == told[0]["throughput_avg"]
    assert rows[2]["throughput_avg"] == ""
    assert json.loads(Path(bench.write_json(told, tmp_path / "a.json")).read_text()) == told
    few = bench.write_csv(told, tmp_path / "few.csv", cols=["batch_size", "verdict"])
    assert Path(few).read_text().splitlines()[0] == "batch_size,verdict"


def test_a_file_without_a_name_is_named_after_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bench.write_json(several()).startswith("net.results-")
    with pytest.raises(UsageError, match="no reports"):
        bench.write_csv([])


def test_the_page_is_self_contained_and_shows_every_verdict(tmp_path):
    page = Path(bench.write_html(several(), tmp_path / "a.html")).read_text()
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert page.count("<polyline") == 2 * 3, "a distribution and a course for each that completed calls"
    assert "it broke" in page
    assert page == Path(bench.write_html(several(), tmp_path / "b.html")).read_text()


def test_names_cannot_break_out_of_the_page():
    evil = dataclasses.replace(
        GOOD, configuration=dataclasses.replace(GOOD.configuration, model_name="<script>x</script>")
    )
    assert "<script>x" not in bench.bench_page.render(reports([evil]))


def test_a_trace_holds_each_call_of_each_worker_and_its_parts(tmp_path):
    times = noisy(0, 50)
    first = dataclasses.replace(worker(0, times), infer_ns=times // 2, device_ns=times // 4)
    done = outcome(first, worker(1, noisy(1, 30), model=1), device_kind="modelled")
    trace = json.loads(Path(bench.write_trace([done], tmp_path / "t.json")).read_text())
    events = trace["traceEvents"]
    calls = [e for e in events if e["name"] == "call"]
    assert len(calls) == 80
    assert calls[0]["ts"] == 0
    assert calls[0]["dur"] == times[0] / 1e3
    assert "device_us (modelled)" in calls[0]["args"]
    assert sum(e["name"] == "infer" for e in events) == 50
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"worker 0", "worker 1"}
    with pytest.raises(UsageError, match="return_timers"):
        bench.write_trace(reports([done]), tmp_path / "u.json")


def test_a_long_trace_says_what_it_left_out(monkeypatch):
    monkeypatch.setattr(bench.bench_trace, "MOST_CALLS", 10)
    trace = json.loads(bench.bench_trace.render([outcome(worker(0, noisy(0, 50)))]))
    assert trace["otherData"]["calls left out"] == 40


def test_the_time_series_adds_up_to_all_calls():
    told = reports([GOOD])[0]
    counted = sum(w["throughput"] * (w["to_s"] - w["from_s"]) for w in told["series"])
    assert counted == pytest.approx(told["total_infs"])
    rows = list(csv.DictReader(bench.render_series([told]).splitlines()))
    assert len(rows) == len(told["series"])
    assert max(float(r["latency_ms_max"]) for r in rows) == pytest.approx(told["latency_ms_p100"])


@pytest.fixture
def mount(tmp_path):
    """A way to have a small or read-only file system, where this process may mount one."""
    made = []

    def at(options):
        folder = tmp_path / f"mounted{len(made)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"may not mount here: {done.stderr.strip()}")
        made.append(folder)
        return folder

    yield at
    for folder in made:
        subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_disk_other_formats_are_written_and_the_reports_stay(mount):
    full = mount("size=128k")
    (full / "ballast").write_bytes(b"x" * 90 * 1024)
    told = several()
    before = json.dumps(told)
    with pytest.raises(EnvironmentFault, match=r"cannot write .*\.json: No space left.*is not lost.*Written: .*csv"):
        bench.save(told, full)
    names = {p.suffix for p in full.iterdir()}
    assert ".csv" in names
    assert not {".json", ".tmp"} & names, "a file is whole or not there"
    assert json.dumps(told) == before


def test_a_read_only_folder_is_a_clear_error(mount):
    folder = mount("size=64k,ro")
    with pytest.raises(EnvironmentFault, match="Read-only file system"):
        bench.write_csv(several(), folder / "a.csv")


def test_a_disk_that_fills_while_a_file_is_replaced_keeps_the_old_one(tmp_path, monkeypatch):
    old = Path(bench.write_json(reports([GOOD]), tmp_path / "a.json")).read_text()

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(EnvironmentFault, match="No space left on device"):
        bench.write_json(several(), tmp_path / "a.json")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == old


def test_calls_that_ended_after_the_phase_are_told_and_not_in_throughput():
    told = report(worker(0, np.full(3000, 1_000_000)), ended_ns=BEGAN + 2_000_000_000)
    assert told["throughput_avg"] == pytest.approx(1000)
    assert told["total_calls"] == 3000
    assert any("1000 calls ended outside" in note for note in told["notes"])


def test_every_field_is_defined_in_the_reference():
    from proveout.measure.generation import Generated, generation_report

    page = (Path(__file__).parents[2] / "docs/reference/bench-report.md").read_text()
    defined = set(re.findall(r"`([\w]+)`", page))
    generated = generation_report([Generated(0, np.arange(1, 200) * 1_000_000)])
    for name in [*reports([GOOD])[0], *generated]:
        stem = re.sub(r"_(low|high)$", "", name)
        assert re.sub(r"_p\d+(_9)?$", "_pN", stem) in defined, name
