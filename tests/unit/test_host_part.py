"""The host's part of a call is timed and told: a modelled time without it is not the time of a call."""

from __future__ import annotations

import dataclasses
import time
from textwrap import dedent
from types import SimpleNamespace

import proveout.sim
import pytest
import torch

import proveout
from proveout import recording, stages
from proveout.app.explorer_compare import quicker
from proveout.app.figures import call_tiles
from proveout.capture import watch
from proveout.clock.timing import measured
from proveout.columns.table import row
from proveout.engine.host_part import has_host_part, host_part
from proveout.engine.prediction import ENOUGH, prediction, with_host
from proveout.errors import CaptureError
from proveout.prove import prove_here
from proveout.report.perf.advice import advise
from proveout.report.perf.apply import outcome
from proveout.report.perf.sheet import make_sheet
from proveout.report.perf.view import totals
from proveout.report.tables.chart import bars
from proveout.report.tables.rows import COLUMNS
from proveout.report.tune.text import headline
from proveout.store import Store, query
from proveout.tune.model import Model
from proveout.types import Job, Record, Settings, Timing, Workload

X = torch.randn(48, 48)


class Factored(torch.nn.Module):
    """Nearly all of it is a factorisation, which no chip's kernel computes."""

    def forward(self, x):
        left, _, right = torch.linalg.svd(x @ x)
        return left @ right


class Broken(torch.nn.Module):
    """PyTorch captures it in two graphs, and waits in between."""

    def forward(self, x):
        y = x * 2
        time.sleep(0.02)
        return y @ y


class Alternating(torch.nn.Module):
    """Every call is captured anew, or is another graph's than the last."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = x * 2
        torch._dynamo.graph_break()
        return torch.linalg.svd(y)[0] @ y if self.calls % 2 else y @ y


def seconds(work):
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def test_a_model_that_is_wholly_on_the_device_leaves_nothing_to_the_host():
    compiled = proveout.compile(torch.nn.Linear(8, 8).eval(), X[:8, :8])
    assert not has_host_part(compiled)
    assert host_part(compiled, lambda: compiled(X[:8, :8])) is None


def test_the_host_part_of_a_factorisation_is_its_own_time_and_nothing_of_the_device():
    compiled = proveout.compile(Factored().eval(), X)
    ran = []
    with compiled.watching(lambda variant, arguments: ran.append(variant)):
        work = host_part(compiled, lambda: compiled(X))
        before = len(ran)
        (outputs,) = work()
    assert len(ran) == before  # no graph ran again
    torch.testing.assert_close(outputs[1], torch.linalg.svdvals(X @ X), rtol=0.02, atol=0.1)


def test_python_between_graphs_is_the_hosts_too():
    compiled = proveout.compile(Broken().eval(), X)
    assert compiled.coverage.graph_breaks
    assert seconds(host_part(compiled, lambda: compiled(X))) >= 0.02


def test_a_call_of_other_graphs_is_not_the_hosts_part_of_the_one_before():
    compiled = proveout.compile(Alternating().eval(), X)
    work = host_part(compiled, lambda: compiled(X))
    with pytest.raises(CaptureError, match="does not call the same graphs"):
        work()


@pytest.mark.slow
def test_the_time_of_a_call_is_the_sum_and_says_of_what():
    compiled = proveout.compile(Factored().eval(), X)
    work = host_part(compiled, lambda: compiled(X))
    device = prediction("device", compiled, compiled.modelled_ns)
    host = measured("host", "cpu", work, iterations=10, warmup=1)
    whole = with_host(device, host)
    assert (whole.what, whole.kind, whole.parts) == ("compiled", "modelled", ("device", "host"))
    assert whole.median_ns == pytest.approx(device.median_ns + host.median_ns, abs=1)
    assert whole.interval_ns[0] <= whole.median_ns <= whole.interval_ns[1]
    assert whole.interval_ns[0] >= device.interval_ns[0] + host.interval_ns[0] - 1


SVD = """
    import torch

    class Factored(torch.nn.Module):
        def forward(self, x):
            left, _, right = torch.linalg.svd(x @ x)
            return left @ right

    Factored()(torch.randn(48, 48))
"""
TRAINED = """
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
    out = model(torch.randn(4, 8))
    {then}
"""
EMPTY = """
    import torch

    class Nothing(torch.nn.Module):
        def forward(self, x):
            return x[:0] * 2

    Nothing().eval()(torch.randn(4, 8))
"""


def workload(tmp_path, source):
    path = tmp_path / "model.py"
    path.write_text(dedent(source))
    (found,), _ = watch(path)
    return found


@pytest.mark.slow
def test_a_records_headline_is_the_chip_plus_its_host_and_says_so(tmp_path):
    found = workload(tmp_path, SVD)
    record = prove_here(Job(found.workload, "sim", Settings(), do=("check",)), found)
    whole, device, host = (record.timing(what) for what in ("compiled", "device", "host"))
    assert (device.kind, host.kind, whole.parts) == ("modelled", "measured", ("device", "host"))
    assert whole.median_ns == pytest.approx(device.median_ns + host.median_ns, abs=1)
    (column,) = (c for c in COLUMNS if c.key == "compiled_ms" and c.short == "Compiled ms")
    assert column.text(row(record)).endswith("(modelled + measured host)")


def test_without_a_run_there_is_no_headline_where_the_host_has_a_part(tmp_path):
    found = workload(tmp_path, SVD)
    record = prove_here(Job(found.workload, "sim", Settings(), do=("compile",)), found)
    assert record.timing("device").kind == "modelled"
    assert record.timing("compiled") is None


ALTERNATING = """
    import torch

    class Alternating(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            y = x * 2
            torch._dynamo.graph_break()
            return torch.linalg.svd(y)[0] @ y if self.calls % 2 else y @ y

    Alternating()(torch.randn(48, 48))
"""


def test_a_headline_that_cannot_be_said_is_withheld_and_says_why(tmp_path):
    found = workload(tmp_path, ALTERNATING)
    record = prove_here(Job(found.workload, "sim", Settings(), do=("run",)), found)
    assert (record.timing("compiled"), record.timing("host")) == (None, None)
    assert record.reason == (
        "no time of a call on sim: what its host does could not be timed, for the model does not call the same graphs "
        "at every call"
    )


def test_a_host_part_of_seconds_has_an_interval_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "HOST_S", 1e-9)
    found = workload(tmp_path, SVD)
    record = prove_here(Job(found.workload, "sim", Settings(), do=("run",)), found)
    whole, host = record.timing("compiled"), record.timing("host")
    assert len(host.samples_ns) >= ENOUGH
    assert whole.interval_ns[0] <= whole.median_ns <= whole.interval_ns[1]


NOTHING_RUNS = """
    import torch

    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.kept = torch.nn.Linear(8, 8), torch.nn.Buffer(torch.ones(4))

        def forward(self, x):
            self.layer(x)
            return self.kept

    Constant()(torch.randn(4, 8))
"""


def test_where_nothing_runs_on_the_device_there_is_no_time_of_0(tmp_path):
    found = workload(tmp_path, NOTHING_RUNS)
    record = prove_here(Job(found.workload, "sim", Settings(), do=("run",)), found)
    assert (record.coverage.before, record.timings) == (0, ())


def test_where_nothing_can_be_compared_the_precision_is_not_to_blame(tmp_path):
    found = workload(tmp_path, EMPTY.replace("return x[:0] * 2", "self.seen = x * 2"))
    record = prove_here(Job(found.workload, "sim", Settings(), do=("run",)), found)
    assert record.reason == "output output: the model gives nothing that can be compared"


def test_a_mixed_time_is_modelled_and_measured_in_every_table(tmp_path):
    host = Timing("host", "measured", "cpu", (7_000_000,) * 9, (), (6e6, 8e6), "steady")
    chip = Timing("device", "modelled", "sim:n150", (1_000_000,), (), (8e5, 2e6), "predicted")
    timings = (chip, host, with_host(chip, host))
    record = Record(Job(Workload("mixed", "mixed.py", "h"), "sim:n150"), "passed", timings=timings)
    mixed = "modelled + measured host"
    flat = row(record)
    assert (flat.compiled_ms, flat.compiled_kind) == (8.0, mixed)
    assert query([record], "select compiled_kind from records") == (["compiled_kind"], [(mixed,)])
    told = query([record], "select what, kind from timings order by what")[1]
    assert told == [("compiled", mixed), ("device", "modelled"), ("host", "measured")]
    assert f"8.00 ms {mixed}" in str(bars([flat]))
    [tile] = call_tiles(flat, "eager")
    assert tile.note == f"a call, median; {mixed}"
    half = tuple(
        dataclasses.replace(
            t, samples_ns=tuple(ns // 2 for ns in t.samples_ns), interval_ns=tuple(ns / 2 for ns in t.interval_ns)
        )
        for t in timings
    )
    assert quicker(record, dataclasses.replace(record, timings=half)) == "2 × faster (1.56 to 2.57) than"
    assert quicker(record, record) == "about as fast as (0.778 to 1.29)"


def test_a_served_model_with_a_host_part_has_no_modelled_throughput_and_no_time_of_a_call(tmp_path):
    saved = proveout.compile(Factored().eval(), (X,)).save(tmp_path / "saved")
    quick = {"n_models": 1, "workers_per_model": 1, "multiprocess": False, "verbosity": 0, "warmup": 1}
    for model, shown in ((Factored().eval(), proveout.sim.benchmark), (str(saved), proveout.benchmark)):
        [report] = shown(model, X, **quick, duration=0.2)
        assert report["device_modelled_ms_p50"] > 0
        assert report.get("throughput_modelled") is None
    records = Store().records()[0]
    assert [(r.timing("device").kind, r.timing("compiled")) for r in records] == [("modelled", None)] * 2


@pytest.mark.parametrize(("then", "mode"), [("", "inference"), ("out.sum().backward()", "training")])
def test_a_forward_call_is_inference_unless_gradients_are_taken(tmp_path, then, mode):
    found = workload(tmp_path, TRAINED.format(then=then))
    assert (found.workload.mode, found.module.training) == (mode, mode == "training")
    flat = row(Record(Job(found.workload, "sim:n150"), "passed"))
    (device,) = (c for c in COLUMNS if c.key == "device" and c.short == "Device")
    assert ("training" in device.text(flat).split()) == (mode == "training")


@pytest.mark.parametrize("script", [EMPTY, EMPTY.replace("x[:0]", "x * float('nan')")], ids=["empty", "NaN"])
def test_nothing_compared_is_no_pass(tmp_path, script):
    found = workload(tmp_path, script)
    record = prove_here(Job(found.workload, "sim", Settings(), do=("check",)), found)
    assert (record.status, record.failure) == ("failed", "numerics")
    assert record.reason.startswith("nothing was compared")


@pytest.mark.parametrize(("model", "left_out"), [(Factored(), "1 step"), (Broken(), "1 graph break")])
def test_a_perf_sheet_without_the_host_is_of_the_chips_part(tmp_path, model, left_out):
    compiled = proveout.compile(model.eval(), (X,), record=tmp_path)
    sheet = make_sheet("m", recording.load(tmp_path), len(compiled.coverage.graph_breaks))
    lines = totals(sheet)
    assert lines[1].startswith("The chip's part of one call")
    assert f"  without {left_out} on the host, which `proveout benchmark` measures" in lines


def test_a_change_of_perf_that_was_made_is_the_chips_part_where_graphs_break(tmp_path):
    recorded = []
    for number, settings in enumerate(({}, {"trace": True})):
        proveout.compile(Broken().eval(), (X,), settings=settings, record=tmp_path / str(number))
        recorded.append(recording.load(tmp_path / str(number)))
    change = next(a for a in advise(recorded[0]) if a.settings == {"trace": True})
    text = outcome("m", change, *recorded, num_breaks=1)["text"]
    assert "a call on the chip, without 1 graph break on the host" in text


@pytest.mark.parametrize("model", [Factored(), Broken()])
def test_what_tuning_gains_of_a_model_that_is_partly_on_the_host_is_the_chips(model):
    num_hosted = Model(model.eval(), ((X,), {}), "sim", Settings(precision="bfloat16")).num_hosted
    assert num_hosted == 1
    tuned = SimpleNamespace(goal="faster", start_ns=40_000, verified_ns=20_000, speedup=2.0, num_hosted=num_hosted)
    assert headline(tuned).startswith(
        "the chip's part 2.00 × faster, modelled: 40 µs → 20 µs a call on the chip, without"
    )
