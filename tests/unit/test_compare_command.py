"""Claims about `proveout compare`: runs in turn, a ratio with its interval, an exit code that CI can trust."""

from __future__ import annotations

import json

import numpy as np
import pytest
from noise_model import pairs as noisy_pairs
from test_store import make_record

from proveout import cli
from proveout.cli.verbs import compare
from proveout.errors import UsageError
from proveout.store import Store
from proveout.types import Job, Timing, Workload


@pytest.fixture
def two(monkeypatch):
    """A way to compare two sides whose runs are given; tells in what order they ran."""

    def given(a, b, kinds=("measured", "measured"), status=("passed", "passed")):
        ran, left = [], {"a": list(a), "b": list(b)}

        def run_once(job):
            ran.append(job.workload.name)
            which = "ab".index(job.workload.name)
            times = left[job.workload.name].pop(0)
            timing = Timing("compiled", kinds[which], "cpu", tuple(int(t) for t in times))
            return make_record(
                job=job, timings=(timing,), status=status[which], reason="" if status[which] == "passed" else "PCC 0.2"
            )

        def side(name, text, request):
            job = Job(Workload(text, "x.py", "h"), "cpu", do=("benchmark",))
            return compare.Competitor(name, text, job, "compiled")

        monkeypatch.setattr(compare, "run_once", run_once)
        monkeypatch.setattr(compare, "_side", side)
        return ran

    return given


def simulated(slowdown, between_runs=0.003):
    return noisy_pairs(np.random.default_rng(7), 10, 1000, slowdown=slowdown, between_runs=between_runs)


@pytest.mark.parametrize(
    ("slowdown", "between_runs", "outcome", "code"),
    [(0.0, 0.003, "passed", 0), (0.06, 0.003, "failed", 1), (0.0, 0.1, "undecided", 4), (-0.2, 0.003, "passed", 0)],
)
def test_the_exit_code_says_passed_slower_or_undecided(two, capsys, slowdown, between_runs, outcome, code):
    two(*simulated(slowdown, between_runs))
    assert cli.main(["compare", "a", "b", "--gate", "3%", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], told["exit_code"]) == (outcome, code)
    assert told["ratio"]["low"] <= told["ratio"]["value"] <= told["ratio"]["high"]
    assert told["declared"] is True
    assert told["kind"] == "measured"


def test_runs_alternate_in_adjacent_pairs(two, capsys):
    ran = two(*simulated(0.0))
    assert cli.main(["compare", "a", "b"]) == 0
    assert "".join(ran) == "abba" * 5
    out, err = capsys.readouterr()
    assert "B ÷ A" in out
    assert "95 % interval" in out
    assert "[20/20] A: about 0 s left" in err or "[20/20] B: about 0 s left" in err


def test_each_sides_last_run_is_a_record_in_the_cache(two, tmp_path):
    a, b = simulated(0.0)
    two(a, b)
    assert cli.main(["compare", "a", "b", "--cache-dir", str(tmp_path / "kept")]) == 0
    records, unreadable = Store(tmp_path / "kept").records()
    assert not unreadable
    last = {record.job.workload.name: record.timings[0].samples_ns for record in records}
    assert last == {name: tuple(int(t) for t in runs[-1]) for name, runs in (("a", a), ("b", b))}


def test_fewer_runs_than_declared_say_so(two, capsys):
    a, b = simulated(0.2)
    two(a[:4], b[:4])
    assert cli.main(["compare", "a", "b", "--gate", "0.03", "--pairs", "4"]) == 1
    out = capsys.readouterr().out
    assert "FAILED: B is slower by" in out
    assert "is not declared" in out


def test_without_a_gate_a_slower_b_is_only_told(two, capsys):
    two(*simulated(0.5))
    assert cli.main(["compare", "a", "b"]) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_modelled_times_need_one_run_and_have_no_interval(two, capsys):
    ran = two([[1000]], [[1100]], ("modelled", "modelled"))
    assert cli.main(["compare", "a", "b", "--gate", "3%"]) == 1
    out = capsys.readouterr().out
    assert ran == ["a", "b"]
    assert "modelled" in out
    assert "interval" not in out
    assert "FAILED: B is modelled to take 10.0% more time" in out


def test_one_pair_of_measured_runs_is_no_ratio(two, capsys):
    two([[1000] * 50], [[1500] * 50])
    assert cli.main(["compare", "a", "b", "--pairs", "1"]) == 0
    out = capsys.readouterr().out
    assert "B ÷ A  not told (an interval needs" in out
    assert "1.5" not in out


@pytest.mark.parametrize(("verdict", "code"), [("unsteady", 4), ("steady", 1)])
def test_a_modelled_time_with_a_weak_part_on_the_host_is_no_ratio(monkeypatch, capsys, two, verdict, code):
    two([], [])
    times = iter((1000, 2000))

    def run_once(job):
        host = Timing("host", "measured", "cpu", (500,), (), (1.0, 2.0), verdict)
        whole = Timing("compiled", "modelled", "sim", (next(times),), (), (1.0, 2.0), "predicted", parts=("host",))
        return make_record(timings=(whole, host))

    monkeypatch.setattr(compare, "run_once", run_once)
    assert cli.main(["compare", "a", "b", "--gate", "3%"]) == code
    assert ("B ÷ A  not told (A: the host's part of the time is unsteady" in capsys.readouterr().out) == (code == 4)


def test_measured_and_modelled_times_are_never_compared(two, capsys):
    two([[1000]], [[1100]], ("measured", "modelled"))
    assert cli.main(["compare", "a", "b"]) == 2
    assert "A is measured and B is modelled" in capsys.readouterr().err


def test_kinds_that_are_known_are_refused_before_anything_runs(two, capsys, monkeypatch):
    ran = two([], [])
    whats = iter((compare.EAGER, "compiled"))
    device = {compare.EAGER: "cpu", "compiled": "sim:n150"}

    def side(name, text, request):
        what = next(whats)
        return compare.Competitor(name, text, Job(Workload(text, "x.py", "h"), device[what]), what)

    monkeypatch.setattr(compare, "_side", side)
    assert cli.main(["compare", "a", "b"]) == 2
    assert ran == []
    assert "A is measured and B is modelled" in capsys.readouterr().err


@pytest.mark.parametrize(("gate", "outcome"), [("1%", "failed"), ("12%", "undecided"), ("50%", "passed")])
def test_a_ratio_of_times_with_a_measured_part_has_that_parts_interval(monkeypatch, capsys, two, gate, outcome):
    two([], [])
    sums = iter(((1000, 500), (1100, 600)))

    def run_once(job):
        whole, part = next(sums)
        host = Timing("host", "measured", "cpu", (part,), (), (part - 10.0, part + 10.0), "steady")
        chip = Timing("device", "modelled", "sim", (whole - part,), (), (1.0, 5000.0), "predicted")
        both = ("device", "host")
        timing = Timing("compiled", "modelled", "sim", (whole,), (), (1.0, 9000.0), "predicted", parts=both)
        return make_record(timings=(timing, chip, host))

    monkeypatch.setattr(compare, "run_once", run_once)
    monkeypatch.setattr(compare, "_kind", lambda side: "modelled")
    cli.main(["compare", "a", "b", "--gate", gate, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["ratio"]["low"] == pytest.approx(1090 / 1010)
    assert told["ratio"]["high"] == pytest.approx(1110 / 990)
    assert (told["outcome"], told["sources"]["a"]) == (outcome, "modelled + measured host")


def test_a_model_with_wrong_outputs_is_no_competitor(two, capsys):
    two([[1000]], [[100]], status=("passed", "failed"))
    assert cli.main(["compare", "a", "b"]) == 1
    assert "B (b) failed: PCC 0.2" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["3", "0%", "100%", "fast", "-3%", "nan"])
def test_a_gate_that_is_no_share_is_refused(text):
    with pytest.raises(UsageError, match="3% or"):
        compare.share(text)
    assert compare.share("3%") == compare.share("0.03") == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("side", "says"),
    [
        ("@cpu", "give SCRIPT"),
        ("x.py@", "give SCRIPT"),
        ("x.py@eager,trace=true", "takes none"),
        ("x.py@sin", "unknown device 'sin'"),
        ("nowhere.py@cpu", "no script"),
        ("x.py@cpu,tempo=3", "unknown setting 'tempo'"),
    ],
)
def test_a_side_that_cannot_be_is_refused(side, says, capsys):
    assert cli.main(["compare", side, side]) == 2
    assert says in capsys.readouterr().err
