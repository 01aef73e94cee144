"""NeuronPerf's names and options are there, and the page that lists them is made of rows that tests hold."""

from __future__ import annotations

import inspect
import time
from pathlib import Path

import neuronperf as npf
import numpy as np
import pytest
from neuronperf_manual import BENCHMARK, COMPILE, NAMES, PAGE, TABLES, lines

import proveout
from proveout.errors import UsageError

HERE = Path(__file__).parent


def named(dotted):
    found = npf
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


def test_the_page_is_made_of_the_rows():
    assert PAGE.read_text().splitlines() == lines(), f"run {HERE / 'neuronperf_manual.py'}"


def test_every_row_has_its_test():
    written = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    missing = {row.test for _, rows in TABLES.values() for row in rows if f"def {row.test}(" not in written}
    assert not missing


@pytest.mark.parametrize("row", [r for r in NAMES if r.name != "mxnet.benchmark"], ids=lambda row: row.name)
def test_a_name_is_there(row):
    assert named(row.name) is not None


@pytest.mark.parametrize(
    ("function", "rows"), [(npf.torch.benchmark, BENCHMARK), (npf.torch.compile, COMPILE)], ids=["benchmark", "compile"]
)
def test_every_option_is_a_parameter(function, rows):
    assert {row.name for row in rows} <= inspect.signature(function).parameters.keys()


@pytest.mark.parametrize(
    ("function", "order"),
    [
        ("benchmark", "load_fn model_filename inputs"),
        ("torch.benchmark", "model_filename inputs batch_sizes duration n_models pipeline_sizes cast_modes"),
        ("compile", "compile_fn model inputs batch_sizes pipeline_sizes performance_levels models_dir filename"),
        ("torch.compile", "model inputs batch_sizes pipeline_sizes performance_levels models_dir filename"),
        ("get_reports", "results"),
        ("print_reports", "reports cols sort_by reverse"),
        ("write_csv", "reports filename cols"),
        ("write_json", "reports filename"),
        ("model_index.create", "filename input_idx batch_size pipeline_size cast_mode compile_s"),
        ("model_index.copy", "old_index new_index new_dir"),
        ("model_index.move", "old_index new_index new_dir"),
        ("model_index.save", "model_index filename root_dir"),
        ("model_index.load", "filename"),
        ("model_index.delete", "filename"),
        ("model_index.filter", "index"),
    ],
)
def test_parameters_stand_in_the_order_of_the_api_page(function, order):
    wanted = order.split()
    assert list(inspect.signature(named(function)).parameters)[: len(wanted)] == wanted


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"unknown option of benchmark 'n_model'.*Did you mean 'n_models'"):
        npf.cpu.benchmark(npf.DummyModel, np.array([1]), n_model=2)


def test_what_is_proveouts_own_is_there_too_and_nothing_else():
    assert npf.Load("poisson", rate=1).rate == 1
    with pytest.raises(AttributeError, match="no attribute 'telescope'"):
        npf.telescope  # noqa: B018


def test_constants():
    """API: the names that stand as defaults."""
    assert npf.BENCHMARK_SECS == 60
    assert {"neuron", "cpu", "gpu", "cuda"} <= set(npf.SUPPORTED_DEVICE_TYPES)
    assert npf.SUMMARY_COLS == npf.PRINT_COLS
    assert len(npf.SUMMARY_COLS) == 8
    assert npf.REPORT_COLS == npf.CSV_COLS
    assert npf.benchmarking.ERROR == "error"
    assert npf.__version__ == proveout.__version__


def test_timer():
    """Its tests: a stopwatch in any unit."""
    timer = npf.Timer()
    for _ in range(3):
        with timer:
            time.sleep(0.001)
    assert len(timer) == len(timer.timestamps()) == 3
    assert timer.total_duration("s") == pytest.approx(timer.durations("s").sum())
    assert timer.total_duration("ns") > timer.total_duration("us") > timer.total_duration("ms") > timer.avg("s")
    assert all(end > start for start, end in timer)
    timer.insert((1000, 3000), "ms")
    assert tuple(timer[0]) == (1.0, 3.0)
    assert len(timer) == 4
    del timer[0]
    timer.start()
    timer.next()
    timer.stop()
    assert len(timer) == 5
    timer.stop()
    assert len(timer) == 5, "nothing was begun"
    timer.reset()
    assert (len(timer), timer.avg("ms")) == (0, 0)
    ticks = iter(range(100))
    ticking = npf.Timer(lambda: next(ticks), "ms")
    with ticking:
        pass
    assert ticking.durations("us").tolist() == [1000]
    assert npf.timestamp_convert(1500, "ms", "s") == pytest.approx(1.5)
    assert npf.timestamp_convert(np.array([1, 2]), "s", "ms").tolist() == [1000, 2000]
    assert npf.timestamp_convert([1, 2], "s", "us").tolist() == [1e6, 2e6]
    with pytest.raises(UsageError, match="unknown unit of time 'h'"):
        npf.timestamp_convert(1, "h", "s")


def test_dummy_model():
    """Its tests: the model that they measure."""
    given = np.array([1, 2])
    assert npf.DummyModel()(given).tolist() == [8, 13]
    assert given.tolist() == [8, 13]
    assert npf.cpu.DummyModel is npf.DummyModel


def test_mxnet_says_so():
    """Framework notes: nobody ships it any more."""
    with pytest.raises(UsageError, match="MXNet models are not served"):
        npf.mxnet.benchmark("model", np.ones(1))


def test_an_index_by_hand():
    """Model index guide: create, save, append, filter."""
    index = npf.model_index.create("net.pt", 0, 1, 2, "all", 1.5, model_name="net", performance_level=2)
    (entry,) = index["model_configs"]
    assert (entry["pipeline_size"], entry["cast_mode"], entry["compile_s"], entry["status"]) == (
        2,
        "all",
        1.5,
        "finished",
    )
    assert npf.model_index.save(index, "mine") == "mine.json"
    assert npf.model_index.load("mine.json") == index
    unnamed = npf.model_index.save(index)
    assert unnamed.startswith("net_")
    indexes = [npf.model_index.create(f"net_p{p}", pipeline_size=p, batch_size=5) for p in (1, 2, 3, 4)]
    both = npf.model_index.append(*indexes, "mine.json", indexes[0])
    assert len(both["model_configs"]) == 5
    for wanted, count in (
        ({"batch_sizes": [1, 2]}, 1),
        ({"batch_size": 5}, 4),
        ({"pipeline_sizes": [2, 3], "batch_sizes": 5}, 2),
        ({"performance_levels": 2}, 1),
        ({"cast_mode": None}, 5),
        ({"filename": "net_p1"}, 1),
    ):
        assert len(npf.model_index.filter(both, **wanted)["model_configs"]) == count, wanted


def test_copy_move_delete(capfd):
    """Model index guide and API: files go along."""
    Path("net.pt").write_text("a model")
    npf.model_index.save(npf.model_index.create("net.pt"), "old.json")
    assert npf.model_index.copy("old.json", "copy.json", "copies") == "copy.json"
    assert npf.model_index.load("copy.json")["model_configs"][0]["filename"] == "copies/net.pt"
    assert npf.model_index.move("old.json", "new.json", "moved") == "new.json"
    assert not Path("old.json").exists()
    assert not Path("net.pt").exists()
    npf.model_index.delete("new.json")
    assert not Path("moved/net.pt").exists()
    npf.set_verbosity(1)
    npf.model_index.delete("new.json")
    assert "WARNING:neuronperf.model_index - There is no new.json to delete." in capfd.readouterr().err
