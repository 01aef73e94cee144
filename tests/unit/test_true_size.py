"""Models planned from shapes alone: the very figures that values give, nothing run, and a table of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from proveout.capture import watch
from proveout.cli import main
from proveout.prove import prove_here
from proveout.report.tables import html, markdown, planned, terminal
from proveout.report.tables.readme import fill
from proveout.report.tables.rows import load
from proveout.stages import STAGES
from proveout.store import Store
from proveout.types import META, Job, Record, Settings

MODEL = """
import torch
from torch import nn

class Asking(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 128), nn.Linear(128, 32)

    def forward(self, x, mask):
        if not torch.compiler.is_compiling() and mask.all():  # a number that shapes cannot tell
            mask = mask.clone()
        return self.last(torch.relu(self.first(x))) * mask[:, None]

Asking()(torch.randn(8, 64), torch.ones(8))
print("the rest of the script")
"""


def record_of(folder: Path, weights: str, model: str = MODEL) -> Record:
    script = folder / "asking.py"
    script.write_text(model)
    (live,), raised = watch(script, weights=weights)
    assert raised is None or isinstance(raised, SystemExit)
    settings = Settings(precision="bfloat16")
    return prove_here(Job(live.workload, "sim:n150", settings, ("compile",)), live)


def test_shapes_alone_give_the_plan_that_values_give(tmp_path):
    known, shapes = record_of(tmp_path, ""), record_of(tmp_path, META)
    assert (known.status, shapes.status) == ("passed", "passed"), shapes.reason
    assert shapes.memory == known.memory
    assert shapes.coverage.ops == known.coverage.ops
    assert [t.median_ns for t in shapes.timings] == [t.median_ns for t in known.timings]
    assert [t.interval_ns for t in shapes.timings] == [t.interval_ns for t in known.timings]


def test_what_would_run_a_model_without_values_is_refused_before_work(tmp_path, capsys):
    assert main(["benchmark", "linear.py", "--search-dir", "selftest", "--weights", "meta"], "proveout") == 2
    assert "compile --dry-run" in capsys.readouterr().err


def test_the_table_of_true_sizes_comes_first_and_rows_that_are_one_result_are_counted_once(tmp_path):
    store = Store(tmp_path / "store")
    shapes, known = record_of(tmp_path, META), record_of(tmp_path, "")
    known = dataclasses.replace(known, job=dataclasses.replace(known.job, do=("check",)))
    twin = dataclasses.replace(known.job.workload, name="twin", selector="0123456789ab")
    broken = dataclasses.replace(known.job.workload, name="broken", selector="ba9876543210")
    for record in (
        shapes,
        known,
        dataclasses.replace(known, job=dataclasses.replace(known.job, workload=twin)),
        Record(dataclasses.replace(known.job, workload=broken), "failed", "it raised"),
    ):
        store.write(record)
    report = load(store)
    text = markdown.render(report)
    assert text.startswith("## Models at their true size, planned")
    assert text.index("| asking |") < text.index("## At a glance")
    assert text.count("3 rows, 2 different results.") == 2  # of the glance, and of the table
    assert "3 rows, 2 different results." in fill("<!-- proveout:glance -->\n<!-- /proveout:glance -->", report, "")
    assert "4 rows, 3 different results." in terminal.render(report)
    assert "different results in 4 rows" in html.render(report)
    lines = text.partition("## At a glance")[2].splitlines()
    glance = next(line for line in lines if line.startswith(f"| {tmp_path.name} "))
    cells = [cell.strip() for cell in glance.strip("|").split("|")]
    titles = list(markdown.GLANCE_COLUMNS)
    assert dict(zip(titles, cells)) | {"rows": "3", "distinct": "2", "failed": "1"} == dict(zip(titles, cells))


@pytest.mark.parametrize("name", ["rows", "distinct", "failed"])
def test_every_column_of_the_glance_is_explained(name):
    assert markdown.GLANCE_COLUMNS[name]


def test_the_glance_of_true_sizes_counts_by_corpus_and_says_what_failed(tmp_path):
    store = Store(tmp_path / "store")
    shapes = record_of(tmp_path, META)
    twin = dataclasses.replace(shapes.job.workload, name="twin", selector="0123456789ab")
    broken = dataclasses.replace(shapes.job.workload, name="broken", selector="ba9876543210")
    store.write(shapes)
    store.write(dataclasses.replace(shapes, job=dataclasses.replace(shapes.job, workload=twin)))
    store.write(Record(dataclasses.replace(shapes.job, workload=broken), "failed", "it asks for numbers"))
    text = fill("<!-- proveout:planned -->\n<!-- /proveout:planned -->", load(store), "")
    assert "2 of 3 models planned: 2 from shapes alone (2 different results;" in text
    line = next(line for line in text.splitlines() if line.startswith(f"| {tmp_path.name} "))
    cells = dict(zip(planned.GLANCE_COLUMNS, (cell.strip() for cell in line.strip("|").split("|"))))
    expected = {"models": "3", "distinct": "2", "planned": "2", "failed": "1", "failed as expected": "0", "fit": "2"}
    assert cells | expected == cells
    (timing,) = shapes.timings
    assert cells["predicted (ms), median and range"].startswith(f"{timing.median_ns / 1e6:.3g}"[:4])


WITH_HOST = MODEL.replace("torch.relu(", "torch.linalg.svdvals(").replace("nn.Linear(128, 32)", "nn.Linear(8, 8)")


TIMES = ("Predicted (ms)", "80 % between (ms)", "Chip alone (ms)")


def test_a_plan_whose_host_has_a_part_in_a_call_has_no_time_of_a_call(tmp_path):
    store = Store(tmp_path / "store")
    on_chip = record_of(tmp_path, META)
    with_host = record_of(tmp_path, META, WITH_HOST)
    twin = dataclasses.replace(with_host.job.workload, name="with_host", selector="0123456789ab")
    with_host = dataclasses.replace(with_host, job=dataclasses.replace(with_host.job, workload=twin))
    assert (with_host.status, [t.what for t in with_host.timings]) == ("passed", ["device"])
    (line,) = terminal.modelled_time(with_host)
    assert "the chip's part of a call, without the host's" in line
    for record in (on_chip, with_host):
        store.write(record)
    text = markdown.render(load(store))
    cells = {
        name: dict(zip(planned.COLUMNS, (cell.strip() for cell in line.strip("|").split("|"))))
        for name in ("asking", "with_host")
        for line in text.splitlines()
        if line.startswith(f"| {name} ")
    }
    times = {name: [bool(row[title]) for title in TIMES] for name, row in cells.items()}
    assert times == {"asking": [True, True, False], "with_host": [False, False, True]}
    line = next(line for line in text.splitlines() if line.startswith(f"| {tmp_path.name} "))
    glance = dict(zip(planned.GLANCE_COLUMNS, (cell.strip() for cell in line.strip("|").split("|"))))
    assert (glance["planned"], glance["with a time"]) == ("2", "1")
    predicted = cells["asking"]["Predicted (ms)"]
    assert glance["predicted (ms), median and range"] == f"{predicted} ({predicted} – {predicted})"


CHOOSING = """
import torch
from torch import nn

class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return self.linear(x[x.sum(dim=1) > 0])

Choosing()(torch.randn(8, 64))
"""


def test_a_model_that_needs_values_says_so_and_is_one_row_once_it_has_them(tmp_path):
    store = Store(tmp_path / "store")
    shapes, known = record_of(tmp_path, META, CHOOSING), record_of(tmp_path, "random", CHOOSING)
    assert (shapes.status, known.status) == ("failed", "passed")
    assert shapes.reason.startswith("its graph depends on the numbers in a tensor")
    assert "--weights random" in shapes.reason
    store.write(shapes)
    assert "0 of 1 model planned" in markdown.render(load(store))
    store.write(known)
    text = markdown.render(load(store))
    assert "1 of 1 model planned: 0 from shapes alone, 1 with seeded random values" in text


BY_DEVICE = """
import torch
from torch import nn

class ByDevice(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        x = self.linear(x) * torch.arange(8)[:, None]  # no device is named
        x = torch.cat([torch.tensor([], device=x.device), x])  # as transformers begins a cache
        return torch.relu(x) if x.device.type == "cpu" else torch.histc(x)  # as libraries choose a kernel

ByDevice()(torch.randn(8, 64))
"""


def test_a_model_that_looks_at_devices_has_the_plan_that_values_give(tmp_path):
    shapes, known = record_of(tmp_path, META, BY_DEVICE), record_of(tmp_path, "random", BY_DEVICE)
    assert (shapes.status, known.status) == ("passed", "passed"), shapes.reason
    assert shapes.programs == known.programs
    assert shapes.coverage.ops == known.coverage.ops
    assert [t.interval_ns for t in shapes.timings] == [t.interval_ns for t in known.timings]


def test_a_published_checkpoint_is_planned_from_shapes_alone():
    script = Path(__file__).parents[2] / "corpora/popular_on_huggingface/bert_tiny.py"
    (live,), raised = watch(script, weights=META)
    assert raised is None or isinstance(raised, SystemExit)
    assert {p.device.type for p in live.module.parameters()} == {META}
    assert live.workload.parameters == 4_385_920


def test_a_failure_that_dynamo_wraps_is_told_by_its_cause(tmp_path, monkeypatch):
    class Wrapped(Exception):
        inner_exception = ValueError("the wall is wet\nand more")

    def fail(subject, record):
        raise Wrapped("backend='proveout on sim:n150' raised:\nValueError")

    monkeypatch.setitem(STAGES, "compile", fail)
    assert record_of(tmp_path, "").reason == "compile: ValueError: the wall is wet"


@pytest.mark.slow
def test_a_script_that_gives_no_model_from_shapes_is_a_failed_row_of_the_table_of_true_sizes(tmp_path, capsys):
    (tmp_path / "asking.py").write_text("raise ValueError('no such checkpoint')\n")
    cache = ["--cache-dir", str(tmp_path / "store"), "--weights", "meta"]
    assert main(["compile", "--dry-run", str(tmp_path / "asking.py"), *cache], "proveout") == 1
    text = markdown.render(load(Store(tmp_path / "store")))
    assert "0 of 1 model planned" in text
    assert "no such checkpoint" in text
    assert "## At a glance" not in text
