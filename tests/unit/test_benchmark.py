"""What is measured is what was asked: configurations, inputs, loads, parts and refusals."""

from __future__ import annotations

import itertools
import os
import threading
import time

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

from proveout.clock import histogram, loops, stamps
from proveout.errors import ProveoutError, UsageError
from proveout.measure import grid
from proveout.measure.benchmarking import benchmark
from proveout.serving import Load


class Doubler(torch.nn.Module):
    def forward(self, x):
        return x * 2


def run(model=Doubler, inputs=None, **rest):
    """In this process unless asked otherwise: quick, and what is called can be looked at."""
    inputs = torch.ones(2, 3) if inputs is None else inputs
    defaults = {
        "duration": 0.1,
        "n_models": 1,
        "workers_per_model": 1,
        "multiprocess": False,
        "verbosity": 0,
        "warmup": 1,
    }
    return benchmark(model, inputs, **{"return_timers": True, **defaults, **rest})


def calls(outcome):
    return sum(len(w.ends_ns) for w in outcome.workers)


class TestConfigurations:
    def test_the_default_is_one_and_max_models_by_one_and_two_workers(self, monkeypatch):
        monkeypatch.setattr(grid, "usable_cores", lambda: 3)
        assert grid.grid("cpu", None, None, None) == [(1, 1, 1), (3, 1, 1), (1, 2, 1), (3, 2, 1)]

    def test_equal_configurations_run_once(self, monkeypatch):
        monkeypatch.setattr(grid, "usable_cores", lambda: 1)
        assert grid.grid("cpu", None, None, None) == [(1, 1, 1), (1, 2, 1)]
        assert grid.grid("cpu", [2, 2], 1, None) == [(2, 1, 1)]

    def test_max_is_the_number_of_chips_on_a_modelled_device(self):
        assert grid.max_models("sim:n300") == 2
        assert grid.max_models("sim") == 1

    def test_a_pipeline_has_as_many_workers_as_stages(self):
        assert grid.grid("sim:n300", None, None, [1, 2]) == [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 2, 2)]

    def test_a_quota_of_the_control_group_limits_the_cores(self, tmp_path, monkeypatch):
        (tmp_path / "cpu.max").write_text("150000 100000\n")
        monkeypatch.setattr(grid, "_groups", lambda: [tmp_path])
        assert grid.usable_cores() == min(2, len(os.sched_getaffinity(0)))
        (tmp_path / "cpu.max").write_text("max 100000\n")
        assert grid.usable_cores() == len(os.sched_getaffinity(0))

    @pytest.mark.slow
    def test_threads_are_cores_over_workers(self):
        (outcome,) = run(lambda x: None, 1, multiprocess=True, n_models=2, duration=0.05)
        assert outcome.configuration.threads == max(1, grid.usable_cores() // 2)

    @pytest.mark.slow
    def test_one_outcome_for_each_batch_and_configuration(self):
        outcomes = run(inputs=[torch.ones(1, 3), torch.ones(4, 3)], batch_sizes=[1, 4], workers_per_model=[1, 2])
        found = [(o.configuration.batch_size, o.configuration.workers_per_model, len(o.workers)) for o in outcomes]
        assert found == [(1, 1, 1), (1, 2, 2), (4, 1, 1), (4, 2, 2)]
        assert all(o.status == "passed" for o in outcomes)


class TestMeasuredPhase:
    @pytest.mark.slow
    def test_lasts_as_long_as_asked_whatever_loading_takes(self):
        def slow_to_load():
            time.sleep(0.3)
            return lambda x: time.sleep(0.001)

        for _ in range(5):  # a busy machine takes its time to end a phase; loading is in none or in all of them
            (outcome,) = run(slow_to_load, 1, multiprocess=True, duration=0.5, warmup=None)
            elapsed = (outcome.ended_ns - outcome.started_ns) / 1e9
            assert elapsed >= 0.5
            if elapsed < 0.6:
                break
        assert elapsed < 0.6
        assert outcome.workers[0].load_ns > 300_000_000
        assert outcome.workers[0].warmup_calls > 10
        assert outcome.workers[0].starts_ns[0] >= outcome.started_ns

    def test_a_call_starts_where_the_last_one_ended(self):
        (outcome,) = run(lambda x: time.sleep(0.0005), 1)
        (worker,) = outcome.workers
        assert worker.starts_ns.size == worker.ends_ns.size
        assert (worker.ends_ns > worker.starts_ns).all()
        gaps = worker.starts_ns[1:] - worker.ends_ns[:-1]
        assert (gaps >= 0).all()
        assert np.mean(gaps == 0) > 0.5

    @pytest.mark.slow
    def test_a_stall_counts_in_full(self):
        seen = itertools.count()

        def stalls(x):
            time.sleep(0.4 if next(seen) == 4 else 0.002)

        (outcome,) = run(stalls, 1, duration=0.3)
        took = outcome.workers[0].ends_ns - outcome.workers[0].starts_ns
        assert took.max() > 400_000_000
        elapsed = (outcome.ended_ns - outcome.started_ns) / 1e9
        # The stall reaches past the deadline: the phase ends with the call, and none of its time is lost.
        assert elapsed > 0.4
        assert took.sum() / 1e9 == pytest.approx(elapsed, rel=0.05)

    @pytest.mark.slow
    def test_throughput_with_a_stall_is_what_the_model_counted_itself(self):
        ends = []

        def stalls(x):
            time.sleep(0.5 if len(ends) == 10 else 0.002)
            ends.append(time.perf_counter())

        (report,) = run(lambda: stalls, 1, duration=0.7, warmup=0, return_timers=False)
        assert report["total_calls"] == len(ends)
        truth = (len(ends) - 1) / (ends[-1] - ends[0])
        assert report["throughput_avg"] == pytest.approx(truth, rel=0.1)
        assert report["latency_ms_p100"] > 500

    def test_a_duration_shorter_than_a_call_still_gives_a_right_throughput(self):
        (outcome,) = run(lambda x: time.sleep(0.15), 1, duration=0.05)
        elapsed = (outcome.ended_ns - outcome.started_ns) / 1e9
        assert calls(outcome) == 1
        assert calls(outcome) / elapsed == pytest.approx(1 / 0.15, rel=0.1)

    def test_max_infers_is_shared_by_a_models_workers(self):
        (outcome,) = run(max_infers=7, workers_per_model=2, n_models=2, duration=30)
        assert sorted(len(w.ends_ns) for w in outcome.workers) == [3, 3, 4, 4]

    def test_no_more_than_16_bytes_a_sample(self, tmp_path, monkeypatch):
        sizes = []
        original = stamps.read_calls

        def reading(path, columns):
            found = original(path, columns)
            sizes.append((path.stat().st_size, len(found.ends_ns)))
            return found

        monkeypatch.setattr("proveout.measure.runs.read_calls", reading)
        run(lambda x: None, 1, duration=0.2)
        ((size, number),) = sizes
        assert number > 10_000
        assert size / number <= 16 + stamps.MOST_ROWS * 8 / number

    def test_overhead_is_measured_with_a_model_that_does_nothing(self):
        (outcome,) = run()
        assert outcome.overhead_ns is not None
        assert 20 < outcome.overhead_ns < 50_000


class TestStamps:
    def read(self, tmp_path, words, columns):
        np.array(words, dtype=np.int64).tofile(tmp_path / "stamps")
        return stamps.read_calls(tmp_path / "stamps", columns)

    def test_a_negative_stamp_starts_the_chain_again(self, tmp_path):
        found = self.read(tmp_path, [-10, 12, 15, -20, -21, 25, 0, 0], ("end",))
        assert found.starts_ns.tolist() == [10, 12, 21]
        assert found.ends_ns.tolist() == [12, 15, 25]

    def test_a_torn_row_is_no_call(self, tmp_path):
        found = self.read(tmp_path, [10, 11, 14, 20, 22, 0, 0, 0, 0], ("start", "preprocess", "end"))
        assert (found.starts_ns.tolist(), found.ends_ns.tolist()) == ([10], [14])
        assert (found.preprocess_ns.tolist(), found.infer_ns.tolist()) == ([1], [3])

    def test_a_file_without_calls_gives_none(self, tmp_path):
        for words in ([], [0, 0], [-5], [-5, -6, 0]):
            assert self.read(tmp_path, words, ("end",)).ends_ns.size == 0
        assert stamps.read_calls(tmp_path / "missing", ("end",)).ends_ns.size == 0

    def test_progress_finds_the_last_call_among_many(self, tmp_path):
        for count in (0, 1, 2, 3, 1000, 4095):
            np.array([*range(1, count + 1), *[0] * (4096 - count)], dtype=np.int64).tofile(tmp_path / f"{count}")
            progress = stamps.StampProgress(tmp_path / f"{count}", ("end",))
            assert [progress.latest_ns(), progress.latest_ns()] == [count, count]
            progress.close()


class TestInputs:
    @pytest.mark.slow
    def test_forms(self):
        seen = []

        def model(*args, **kwargs):
            seen.append((args, kwargs))

        x, y = torch.ones(2), torch.zeros(2)
        for inputs, expected in [
            (x, ((x,), {})),
            ((x, y), ((x, y), {})),
            ({"a": x, "b": y}, ((), {"a": x, "b": y})),
            ([(x, y)], ((x, y), {})),
        ]:
            seen.clear()
            run(lambda: model, inputs, duration=0.01)
            (args, kwargs) = seen[0]
            assert len(args) == len(expected[0])
            assert all(a is b for a, b in zip(args, expected[0]))
            assert kwargs.keys() == expected[1].keys()

    def test_a_generator_is_drawn_and_repeated(self):
        seen = []
        (outcome,) = run(lambda: seen.append, (i for i in range(3)), max_infers=7, warmup=0)
        assert seen == [0, 1, 2, 0, 1, 2, 0]
        assert outcome.status == "passed"

    def test_preprocess_and_postprocess_are_timed_alone_and_in_the_whole(self):
        (outcome,) = run(
            lambda x, y: time.sleep(0.003) or x + y,
            (1, 2),
            preprocess_fn=lambda x, y: (time.sleep(0.002), (x, y))[1],
            postprocess_fn=lambda out: time.sleep(0.001),
        )
        (worker,) = outcome.workers
        whole = worker.ends_ns - worker.starts_ns
        for part, least in ((worker.preprocess_ns, 2e6), (worker.infer_ns, 3e6), (worker.postprocess_ns, 1e6)):
            assert part.size == whole.size
            assert part.min() >= least
        assert (whole == worker.preprocess_ns + worker.infer_ns + worker.postprocess_ns).all()

    def test_a_bare_tensor_from_preprocess_is_one_input(self):
        seen = []
        run(lambda: seen.append, torch.ones(2, 3), preprocess_fn=lambda x: x * 5, max_infers=2)
        assert torch.equal(seen[0], torch.full((2, 3), 5.0))

    def test_the_batch_is_checked_after_preprocessing(self):
        (outcome,) = run(inputs=torch.ones(3, 4), preprocess_fn=lambda x: x[None], batch_sizes=1)
        assert outcome.status == "passed"
        (wrong,) = run(inputs=torch.ones(3, 4), preprocess_fn=lambda x: x[None], batch_sizes=2)
        assert wrong.status == "failed"
        assert "leading dimension is 1" in wrong.reason

    def test_setup_functions_run_before_and_after_load(self):
        order = []

        def make():
            order.append("load")
            return lambda x: None

        run(
            make,
            1,
            env_setup_fn=lambda index, config: order.append(("env", index, config["n_models"])),
            setup_fn=lambda index, config, model: order.append(("setup", index, callable(model))),
        )
        assert order == [("env", 0, 1), "load", ("setup", 0, True)]


class Numbers(Dataset):
    def __init__(self, length=10):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= self.length:
            raise IndexError
        return torch.full((3,), float(index)), index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.tensor([float(i)]) for i in range(20))


class TestDatasets:
    def test_all_of_a_dataset_runs_on_every_model_and_once(self):
        seen, lock = [], threading.Lock()

        def make():
            def model(image):
                with lock:
                    seen.extend(image[:, 0].tolist())

            return model

        (outcome,) = run(
            make,
            Numbers(),
            n_models=2,
            workers_per_model=2,
            batch_sizes=2,
            preprocess_fn=lambda x: x[0],
            warmup=0,
            duration=30,
        )
        assert sorted(seen) == sorted(2 * [float(i) for i in range(10)])
        assert outcome.status == "passed"

    def test_a_short_last_batch_is_counted_by_its_items(self):
        (outcome,) = run(lambda: lambda x: None, Numbers(10), batch_sizes=8, duration=30, warmup=0)
        (worker,) = outcome.workers
        assert len(worker.ends_ns) * 8 - worker.missing_items == 10

    def test_a_dataset_can_loop(self):
        (outcome,) = run(lambda: lambda x: time.sleep(0.001), Numbers(3), loop_dataset=True, duration=0.1)
        assert calls(outcome) > 3  # more calls than the dataset has items

    def test_a_stream_is_shared_by_workers_without_duplicates(self):
        seen, lock = [], threading.Lock()

        def model(x):
            with lock:
                seen.extend(x.flatten().tolist())

        run(lambda: model, Stream(), n_models=2, workers_per_model=2, batch_sizes=2, warmup=0, duration=30)
        assert sorted(seen) == [float(i) for i in range(20)]

    def test_loader_functions_and_arguments(self):
        seen = []
        run(
            lambda: seen.append,
            Numbers(4),
            dataset_loader_fn=lambda dataset, workers: (image for image, _ in map(dataset.__getitem__, range(4))),
            warmup=0,
            duration=30,
        )
        assert [float(x[0]) for x in seen] == [0, 1, 2, 3]
        seen.clear()
        run(
            lambda: seen.append, Numbers(5), batch_sizes=2, dataloader_kwargs={"drop_last": True}, warmup=0, duration=30
        )
        assert len(seen) == 2


class TestLoads:
    def test_constant_rate_charges_a_stall_to_all_who_waited(self):
        seen = itertools.count()

        def stalls(x):
            if next(seen) == 10:
                time.sleep(0.1)

        (outcome,) = run(stalls, 1, load=Load("constant", rate=200), duration=0.4, warmup=0)
        (worker,) = outcome.workers
        assert len(worker.ends_ns) == 80
        assert (worker.starts_ns >= worker.intended_ns).all()
        response = worker.ends_ns - worker.intended_ns
        service = worker.ends_ns - worker.starts_ns
        # 20 requests came while the server stood: waits of about 95, 90, … ms.
        assert (response > 10_000_000).sum() >= 15
        assert (service > 10_000_000).sum() <= 8
        assert outcome.ended_ns - outcome.started_ns >= 400_000_000

    def test_poisson_arrivals_are_as_scheduled(self):
        from proveout.measure import arrivals

        (outcome,) = run(lambda x: None, 1, load=Load("poisson", rate=300, seed=7), workers_per_model=2, duration=0.3)
        intended = np.sort(np.concatenate([w.intended_ns for w in outcome.workers])) - outcome.started_ns
        assert (intended == arrivals.poisson(300, 0.3, 7)).all()

    def test_replay_starts_when_the_trace_says(self):
        trace = (0.0, 0.01, 0.05, 0.051)
        (outcome,) = run(lambda x: None, 1, load=Load("replay", arrivals_s=trace), duration=1)
        (worker,) = outcome.workers
        assert ((worker.intended_ns - outcome.started_ns) / 1e9).tolist() == pytest.approx(trace)

    @pytest.mark.slow
    def test_workers_in_different_processes_share_one_schedule(self):
        (outcome,) = run(
            lambda x: time.sleep(0.001), 1, load=Load("constant", rate=400), n_models=2, multiprocess=True, duration=0.3
        )
        intended = np.concatenate([w.intended_ns for w in outcome.workers])
        assert len(intended) == len(set(intended)) == 120
        assert all(len(w.ends_ns) > 10 for w in outcome.workers)

    @pytest.mark.slow
    def test_a_rate_that_cannot_be_served_is_told(self):
        (outcome,) = run(lambda x: time.sleep(0.01), 1, load=Load("constant", rate=500), duration=0.2)
        assert outcome.status == "partial"
        assert "were not served in time" in outcome.reason

    def test_offline_counts_from_the_beginning(self):
        (outcome,) = run(lambda x: time.sleep(0.001), 1, load="offline", max_infers=20, duration=30)
        (worker,) = outcome.workers
        assert len(worker.ends_ns) == 20
        assert set(worker.intended_ns) == {outcome.started_ns}

    def test_concurrency_is_spread_over_models(self):
        (outcome,) = run(
            lambda x: time.sleep(0.002), 1, load=Load("concurrency", concurrency=3), n_models=2, workers_per_model=None
        )
        assert [w.model for w in outcome.workers] == [0, 0, 1]
        assert all(len(w.ends_ns) > 3 for w in outcome.workers)

    def test_streams_of_a_query_start_together(self):
        (outcome,) = run(lambda x: time.sleep(0.002), 1, load=Load("multistream", streams=3), workers_per_model=None)
        first = outcome.workers[0].intended_ns
        assert len(first) > 5
        for worker in outcome.workers[1:]:
            both = min(len(first), len(worker.intended_ns))
            assert (worker.intended_ns[:both] == first[:both]).all()


class TestHistogram:
    def test_percentiles_are_within_a_percent_and_sums_exact(self, tmp_path, monkeypatch):
        took = (1e5 * np.random.default_rng(3).lognormal(0, 1.5, 20_000)).astype(np.int64)
        took[:200] = range(200)
        stamps_ns = iter(np.cumsum(np.concatenate([[1], took])).tolist())
        monkeypatch.setattr(loops, "clock", lambda: next(stamps_ns))
        writer = histogram.HistogramWriter(tmp_path / "bins")
        writer.restart(1)
        next(stamps_ns)
        caller = loops.Caller(lambda x: None, ((1,), {}))
        loops._binned(caller, writer, 0, len(took), 1 << 62, False)
        found = histogram.summary([histogram.read_bins(tmp_path / "bins")])
        assert (found.n, found.min_ns, found.max_ns) == (len(took), int(took.min()), int(took.max()))
        assert found.mean_ns.value == took.mean()
        for percent in (50, 90, 99, 99.9):
            expected = np.percentile(took, percent, method="inverted_cdf")
            assert found.percentile(percent).value == pytest.approx(expected, rel=0.01)
        assert found.percentile(99.9).low is None
        assert "no order" in found.percentile(99.9).reason

    def test_memory_does_not_grow_with_calls(self, tmp_path):
        sizes = []
        for number, count in enumerate((10, 100_000)):
            writer = histogram.HistogramWriter(tmp_path / str(number))
            caller = loops.Caller(lambda x: None, ((1,), {}))
            loops.measure(caller, writer, start_ns=0, deadline_ns=1 << 62, limit=count)
            sizes.append((tmp_path / str(number)).stat().st_size)
            assert histogram.num_calls(histogram.read_bins(tmp_path / str(number))) == count
        assert sizes[0] == sizes[1] < 1 << 16

    def test_its_report_counts_and_says_what_it_cannot(self):
        (report,) = run(
            lambda x: time.sleep(0.001),
            1,
            recording="histogram",
            workers_per_model=2,
            duration=0.3,
            return_timers=False,
        )
        assert report["total_calls"] > 100
        assert report["throughput_avg"] == pytest.approx(report["total_calls"] / report["total_s"])
        assert 1.0 < report["latency_ms_p50"] < 10
        assert report["throughput_avg_low"] is None
        assert "no order" in report["reasons"]["throughput_avg_low"]
        assert [name for name, reason in report["reasons"].items() if "no call was completed" in reason] == []
        assert report["verdict"] == "INVALID"


class TestOutputsWhileTiming:
    def test_a_fast_wrong_model_fails(self):
        (outcome,) = run(inputs=torch.randn(4, 8), reference=lambda x: x + x)
        assert outcome.check.compared > 0
        assert outcome.status == "passed"
        (wrong,) = run(inputs=torch.randn(4, 8), reference=torch.nn.Identity)
        assert wrong.status == "failed"
        assert "outputs are wrong" in wrong.reason

    def test_the_model_itself_may_be_the_reference(self):
        model = torch.nn.Linear(4, 4)
        (outcome,) = run(model, torch.randn(2, 4), reference=model)
        assert (outcome.status, outcome.check.wrong) == ("passed", 0)

    def test_what_goes_wrong_only_later_is_found(self):
        seen = itertools.count()

        def later(x):
            return x if next(seen) < 20 else x.flip(0)

        (outcome,) = run(lambda: later, torch.randn(16, 3), reference=torch.nn.Identity, duration=0.2)
        assert 0 < outcome.check.wrong < outcome.check.compared


class Unpicklable:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, x):
        return x


class NeedsSize:
    def __init__(self, size):
        self.size = size

    def __call__(self, x):
        return x


def make_local_class():
    class Inner(torch.nn.Module):
        def forward(self, x):
            return x

    return Inner


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"inputs": []}, "no inputs"),
            ({"inputs": ()}, "no inputs"),
            ({"inputs": Numbers(0)}, "is empty"),
            ({"inputs": (i for i in ())}, "yields nothing"),
            ({"batch_sizes": 0}, "batch size 0"),
            ({"batch_sizes": [2, 4]}, "1 inputs and 2 batch sizes"),
            ({"batch_sizes": 3}, "leading dimension is 2"),
            ({"inputs": [torch.ones(1), torch.ones(2)], "batch_sizes": [1]}, "2 inputs and 1 batch sizes"),
            ({"model": Unpicklable()}, "give a factory"),
            ({"model": make_local_class()}, "inside make_local_class()"),
            ({"model": NeedsSize}, "needs size"),
            ({"model": 3}, "a model of type int"),
            ({"model": "no.such:Thing"}, "cannot be imported"),
            ({"model": "absent.pt"}, "'absent.pt': there is no such file"),
            ({"duration": 0}, "duration is 0"),
            ({"duration": float("nan")}, "duration is nan"),
            ({"n_models": 0}, "n_models has 0"),
            ({"n_models": []}, "n_models is an empty list"),
            ({"workers_per_model": -1}, "workers_per_model has -1"),
            ({"pipeline_sizes": 2}, "pipeline of 2 chips"),
            ({"device_type": "abacus"}, "unknown device"),
            ({"load": "fast"}, "unknown load mode"),
            ({"load": "constant"}, "needs a rate"),
            ({"load": Load("replay", arrivals_s=(1.0, 0.5))}, "not in order"),
            (
                {"load": Load("concurrency", concurrency=1), "n_models": 2, "workers_per_model": None},
                "at least one call for each model",
            ),
            ({"load": Load("concurrency", concurrency=2), "workers_per_model": 2}, "leave workers_per_model out"),
            ({"on_error": "ignore"}, "on_error is 'ignore'"),
            ({"verbosity": 3}, "verbosity is 3"),
            ({"warmup": -1}, "warmup is -1"),
            ({"max_infers": 0}, "max_infers is 0"),
            ({"recording": "vinyl"}, "unknown recording"),
        ],
    )
    def test_bad_input_is_refused_in_one_sentence_before_any_process(self, given, words, monkeypatch):
        def start(*args, **kwargs):
            raise AssertionError("a process was started")

        monkeypatch.setattr("subprocess.Popen", start)
        given = {"multiprocess": True, **given}
        with pytest.raises(ProveoutError, match=r"[.]$") as caught:
            run(given.pop("model", Doubler), given.pop("inputs", torch.ones(2, 3)), **given)
        text = str(caught.value)
        assert words in text
        assert "\n" not in text
        assert text.endswith((".", "…)."))

    def test_an_open_device_is_no_reason_to_fork(self):
        with pytest.raises(UsageError, match="no GPU here"):
            run(device_type="gpu")


@pytest.mark.slow
def test_what_a_script_defines_reaches_its_workers(tmp_path):
    """Classes and lambdas of `__main__`, and no guard around the call."""
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text(
        "import proveout, torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x): return x + SHIFT\n"
        "SHIFT = 1\n"
        "from proveout.measure.benchmarking import benchmark\n"
        "(o,) = benchmark(Net, torch.ones(1, 2), n_models=1, workers_per_model=1, duration=0.1, return_timers=True,\n"
        "    preprocess_fn=lambda x: x * SHIFT, verbosity=0)\n"
        "print(o.status, o.reason, len(o.workers[0].ends_ns) > 100)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "passed  True", done.stderr
