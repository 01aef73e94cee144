"""Claims about the store: nothing half-written, nothing lost, nothing fatal."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from proveout import store as store_module
from proveout.cache import upgrade
from proveout.columns.parts import op_rows
from proveout.columns.table import row
from proveout.errors import EnvironmentFault, UsageError
from proveout.folders import default_folder
from proveout.store import TABLES, Store
from proveout.types import (
    Comparison,
    Coverage,
    Fallback,
    Job,
    MemoryUse,
    OpStatus,
    Origin,
    Record,
    Settings,
    TensorSpec,
    Timing,
    Workload,
)


def make_record(name: str = "linear", device: str = "sim:n150", **changes: Any) -> Record:
    """A small, complete Record by hand; `test_report` and `test_cli` use it too."""
    on_chip = device.startswith("sim")
    workload = Workload(
        name=name,
        script=f"models/{name}.py",
        selector="ab12cd34",
        class_name="Linear",
        inputs=(("x", TensorSpec((1, 64), "float32")),),
        parameters=4160,
        labels=(("author", ("proveout",)),),
    )
    timings = [
        Timing("eager", "measured", "cpu", tuple(range(400_000, 420_000, 1000)), (("threads", "2"),)),
        Timing("compiled", "modelled" if on_chip else "measured", device, (42_000,) * (1 if on_chip else 20)),
    ]
    if on_chip:
        timings.append(Timing("simulation", "measured", device, (9_000_000, 9_100_000, 9_200_000)))
    ops = (
        OpStatus("addmm", "aten.addmm.default", "converted"),
        OpStatus("relu", "aten.relu.default", "converted"),
        OpStatus("sort", "aten.sort.default", "host", "no kernel sorts along a dimension of 64", "self=f32[64]"),
        OpStatus("t", "aten.t.default", "removed"),
    )
    sort = Fallback(
        *("aten.sort.default", "no kernel sorts along a dimension of 64", 1, "pad the dimension to 128"),
        nodes=("sort",), modules=("top",), sources=("models/linear.py:7",), num_transfers=2, transfer_bytes=8192,
        transfer_ns=4_200, time_share=0.1, transfer_share=2 / 3, saved_transfers=2, saved_ns=4_200,
    )  # fmt: skip
    record = Record(
        job=Job(workload, device, Settings(precision="bfloat16" if on_chip else "model")),
        status="passed",
        coverage=Coverage(ops, num_transfers=3, num_graphs=1),
        comparisons=(
            Comparison("output", "output", 0.99987, 0.01, 0.02, 0.99, True),
            Comparison("step", "v3", 0.9999, 0.01, 0.02, 0.99, True, origin=Origin(module="fc")),
        ),
        timings=tuple(timings),
        memory=MemoryUse(2_500_000, 40_000, 1_393_472, 8_000_000, 16_640) if on_chip else MemoryUse(),
        compile_s=(("capture", 0.5), ("lower", 0.25)),
        fallbacks=(sort,),
        environment=(("torch", "2.13"),),
        created="2026-01-01T00:00:00+00:00",
    )
    return dataclasses.replace(record, **changes)


def test_what_is_written_is_read_back_whole(tmp_path: Path) -> None:
    store, record = Store(tmp_path), make_record()
    path = store.write(record)
    assert path == tmp_path / store_module.machine() / f"{record.job.key}.json"
    assert store.get(record.job) == record


def test_records_learn_their_machine_from_the_folder(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.write(make_record())
    (tmp_path / "box-7").mkdir()
    path.rename(tmp_path / "box-7" / path.name)
    (record,), bad = store.records()
    assert bad == []
    assert row(record).machine == "box-7"


def test_a_job_without_a_record_gives_none(tmp_path: Path) -> None:
    assert Store(tmp_path / "missing").get(make_record().job) is None
    assert Store(tmp_path / "missing").records() == ([], [])


def test_writing_leaves_no_temporary_file(tmp_path: Path) -> None:
    Store(tmp_path).write(make_record())
    Store(tmp_path).check_writable()
    left = sorted(path.suffix for path in tmp_path.rglob("*") if path.is_file())
    assert left == [".json", ".parquet"]


def test_a_failed_write_leaves_the_old_record_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, record = Store(tmp_path), make_record()
    store.write(record)

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(EnvironmentFault, match=r"No space left on device.*--cache-dir DIR"):
            store.write(dataclasses.replace(record, reason="second"))
    assert store.get(record.job) == record
    assert not list(tmp_path.rglob("*.tmp"))


def test_json_is_strict_even_where_a_number_is_not(tmp_path: Path) -> None:
    off = Comparison("output", "output", float("nan"), float("inf"), None, 0.99, False, "not a number")
    store, record = Store(tmp_path), make_record(comparisons=(off,))
    text = store.write(record).read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    found = store.get(record.job)
    assert found is not None
    assert found.comparisons[0].pcc is None


def test_all_samples_survive_though_json_keeps_a_thousand(tmp_path: Path) -> None:
    many = Timing("compiled", "measured", "cpu", tuple(range(5000, 0, -1)))
    store, record = Store(tmp_path), make_record("linear", "cpu", timings=(many,))
    path = store.write(record)
    assert len(json.loads(path.read_text())["timings"][0]["samples_ns"]) == 1000
    found = store.get(record.job)
    assert found is not None
    assert found.timings == (many,)


def test_parquet_holds_every_sample_with_its_kind(tmp_path: Path) -> None:
    import duckdb

    path = Store(tmp_path / "it's here").write(make_record())
    quoted = str(path.with_suffix(".parquet")).replace("'", "''")
    found = duckdb.sql(f"select what, kind, device, count(*) from '{quoted}' group by all order by all").fetchall()
    assert found == [
        ("compiled", "modelled", "sim:n150", 1),
        ("eager", "measured", "cpu", 20),
        ("simulation", "measured", "sim:n150", 3),
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text[: len(text) // 2], "is not JSON"),
        (lambda text: "[" * 100_000, "is not JSON"),
        (lambda text: "[]", "holds a JSON list, not a Record"),
        (lambda text: text.replace('"schema": 2', '"schema": 3'), "has schema 3; this version reads 1 and 2"),
        (lambda text: text.replace('"status"', '"mood"'), "has no field 'mood'"),
        (
            lambda text: text.replace('"passed"', '"splendid"', 1),
            "Record.status is 'splendid', not one of passed",
        ),
        (
            lambda text: text.replace('"parameters": 4160', '"parameters": "4160"'),
            "parameters is '4160', not int",
        ),
        (lambda text: text.replace("42000", "true"), "samples_ns[0] is True, not int"),
        (lambda text: text.replace("42000", "9" * 19), "a number in it has more than 64 bits"),
        (lambda text: text.replace("42000", "9" * 400), "a number in it has more than 64 bits"),
        (lambda text: re.sub(r"0\.99\d*", "NaN", text, count=1), "a number in it is none"),
        (lambda text: re.sub(r"0\.99\d*", "1e999", text, count=1), "a number in it is none"),
        (lambda text: re.sub(r"0\.99\d*", "9" * 400, text, count=1), "a number in it has more than 64 bits"),
        (lambda text: text.replace('"bad"', '"b\\ud800d"'), "a text in it has half of a character"),
    ],
)
def test_a_bad_file_is_listed_with_its_reason_and_the_rest_is_read(tmp_path: Path, change: Any, reason: str) -> None:
    store = Store(tmp_path)
    path = store.write(make_record("bad"))
    store.write(make_record("good"))
    path.write_text(change(path.read_text()))
    records, bad = store.records()
    assert [r.job.workload.name for r in records] == ["good"]
    assert [p for p, _ in bad] == [path]
    assert reason in bad[0][1]
    assert store.get(make_record("bad").job) is None


def test_half_of_a_character_from_a_script_is_kept_as_a_question_mark(tmp_path: Path) -> None:
    store, record = Store(tmp_path), make_record("b\ud800d", status="failed", reason="\udcff \U0001f525")
    store.write(record)
    assert (store.get(record.job).job.workload.name, store.get(record.job).reason) == ("b?d", "? \U0001f525")
    assert store.query("select model from records")[1] == [("b?d",)]


OLD = Path(__file__).parents[1] / "data" / "records"


def old_store(folder: Path) -> Store:
    """A folder of Records as the first schema wrote them."""
    (folder / "lab").mkdir()
    for path in OLD.glob("*.json"):
        (folder / "lab" / path.name).write_text(path.read_text())
    assert {json.loads(path.read_text())["schema"] for path in (folder / "lab").iterdir()} == {1}
    return Store(folder)


def test_records_of_schema_1_are_read_and_stay_as_they_are_on_disk(tmp_path: Path) -> None:
    store = old_store(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "lab").iterdir()}
    records, bad = store.records()
    assert (len(records), bad) == (len(before), [])
    kinds = {(t.kind, t.verdict) for r in records for t in r.timings}
    assert kinds == {("measured", "not judged"), ("modelled", "predicted")}
    modelled = [t for r in records for t in r.timings if t.kind == "modelled"]
    assert all(t.interval_ns and t.interval_ns[0] <= t.median_ns <= t.interval_ns[1] for t in modelled)
    assert store.query("select count(*) from timings where low_ns is not null")[1] == [(len(modelled),)]
    assert {path: path.read_bytes() for path in (tmp_path / "lab").iterdir()} == before


def test_upgrading_judges_old_samples_and_is_done_once(tmp_path: Path) -> None:
    store = old_store(tmp_path)
    old, _ = store.records()
    assert len(upgrade(store)) == len(old)
    new, bad = store.records()
    assert bad == []
    assert [r.job for r in new] == [r.job for r in old]
    assert [t.samples_ns for r in new for t in r.timings] == [t.samples_ns for r in old for t in r.timings]
    assert "not judged" not in {t.verdict for r in new for t in r.timings}
    assert upgrade(store) == []


def test_a_total_names_the_timings_that_it_is_made_of() -> None:
    record = make_record()
    total = Timing("whole call", "modelled", "sim:n150", (1,), parts=("compiled", "simulation"))
    assert [t.kind for t in record.parts(total)] == ["modelled", "measured"]
    assert record.parts(record.timings[0]) == ()


def test_an_unwritable_store_names_the_path_and_the_way_out(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    store = Store(blocker / "cache")
    for attempt in (store.check_writable, lambda: store.write(make_record())):
        with pytest.raises(EnvironmentFault, match="--cache-dir DIR") as caught:
            attempt()
        assert str(blocker / "cache") in str(caught.value)
        assert caught.value.exit_code == 3


def test_records_come_in_the_same_order_whatever_the_order_of_writing(tmp_path: Path) -> None:
    records = [make_record(name, device) for name in ("b", "a", "c") for device in ("sim:n150", "cpu")]
    for folder, order in (("one", records), ("two", records[::-1])):
        for record in order:
            Store(tmp_path / folder).write(record)
    one, two = (Store(tmp_path / folder).records()[0] for folder in ("one", "two"))
    assert one == two
    assert [(r.job.workload.name, r.job.device) for r in one[:3]] == [
        ("a", "cpu"),
        ("a", "sim:n150"),
        ("b", "cpu"),
    ]


def test_removing_a_record_removes_its_samples_too(tmp_path: Path) -> None:
    store, record = Store(tmp_path), make_record()
    store.write(record)
    store.remove(record.job)
    store.remove(record.job)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_cache_variable_moves_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("PROVEOUT_CACHE")
    assert default_folder() == Path.home() / ".cache" / "proveout"


def test_row_says_which_times_are_modelled() -> None:
    flat = row(make_record())
    assert (flat.original_ms, flat.original_kind) == (0.4095, "measured")
    assert (flat.compiled_ms, flat.compiled_kind) == (0.042, "modelled")
    assert flat.host_ms == 9.1
    assert (flat.ops_before, flat.ops_remain, flat.transfers) == (4, 1, 3)


def test_row_leaves_unknown_what_nothing_was_learnt_about() -> None:
    empty = make_record(coverage=Coverage(), memory=MemoryUse(), timings=(), comparisons=(), status="failed")
    flat = row(empty)
    unknown = ("ops_before", "transfers", "original_ms", "compiled_kind", "l1_peak_bytes", "fits", "pcc")
    assert [getattr(flat, name) for name in unknown] == [None] * 7


def test_row_has_the_columns_of_the_records_table() -> None:
    assert list(vars(row(make_record()))) == list(TABLES["records"])


def test_op_rows_keep_states_and_reasons_apart() -> None:
    ops = (
        OpStatus("a", "aten.add.Tensor", "converted"),
        OpStatus("b", "aten.add.Tensor", "host", "int64 has no kernel"),
        OpStatus("c", "aten.add.Tensor", "host", "int64 has no kernel"),
    )
    assert [(o.state, o.reason, o.count) for o in op_rows(make_record(coverage=Coverage(ops)))] == [
        ("converted", "", 1),
        ("host", "int64 has no kernel", 2),
    ]


def test_query_answers_from_every_table(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for device in ("sim:n150", "cpu"):
        store.write(make_record("linear", device))
    columns, rows = store.query("select device, compiled_kind from records order by device")
    assert columns == ["device", "compiled_kind"]
    assert rows == [("cpu", "measured"), ("sim:n150", "modelled")]
    assert store.query("select sum(count) from ops where state = 'host'")[1] == [(2,)]
    assert store.query("select kind, count(*) from timings group by kind order by kind")[1] == [
        ("measured", 4),
        ("modelled", 1),
    ]
    assert store.query("select count(*) from comparisons where scope = 'step' and passed")[1] == [(2,)]


def test_query_of_an_empty_store_has_tables_without_rows(tmp_path: Path) -> None:
    assert Store(tmp_path).query("select count(*) from records") == (["count_star()"], [(0,)])


def test_query_error_is_a_usage_error_that_lists_tables_and_says_how_to_list_columns(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nonsense") as caught:
        Store(tmp_path).query("select nonsense from records")
    assert "\n" not in str(caught.value)
    assert f"Tables: {', '.join(TABLES)}. List a table's columns: proveout query 'describe " in str(caught.value)
