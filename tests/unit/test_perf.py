"""Claims about the perf sheet: its rows and totals, tt-metal's columns, the advice, what is recorded."""

from __future__ import annotations

import csv
import io
import itertools
import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from planted import MODELS
from torch import nn

from proveout import recording
from proveout.chip.specs import CHIPS
from proveout.engine.compiled import compile
from proveout.errors import UsageError
from proveout.kernels.cost import program_time, step_times
from proveout.program import Name, Program, Ref, Step
from proveout.recording import Recorded
from proveout.report.perf import files as perf
from proveout.report.perf import view as perf_view
from proveout.report.perf.advice import advise, call_ns, notes, predicted_ns
from proveout.report.perf.sheet import Sheet, make_sheet
from proveout.report.perf.tt_csv import headers, render_csv, render_device_log, tensor_cells
from proveout.report.visualizer.schema import memory_config
from proveout.types import DRAM, L1, Comparison, Fallback, Memory, Origin, Settings, ShardSpec, TensorSpec

SETTINGS = Settings(precision="bfloat16", products="default", sharding="interleaved")
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Small(nn.Module):
    """A convolution, a norm and two linears, one with an activation; nothing stays on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(32, 64, 3, padding=1)
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.norm(self.conv(x).flatten(2).transpose(1, 2))
        return self.down(nn.functional.gelu(self.up(rows)))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVEOUT_CACHE", str(folder / "cache"))
        torch.manual_seed(0)
        compile(Small().eval(), torch.randn(1, 32, 16, 16), settings=SETTINGS, record=folder / "programs")
    (found,) = recording.load(folder / "programs")
    return found


@pytest.fixture(scope="module")
def sheet(recorded: Recorded) -> Sheet:
    return make_sheet("small", [recorded])


def rows_of(sheet: Sheet) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(sheet))))


# ------------------------------------------------------------------------------------------------- the sheet


def test_kernels_waits_and_transfers_add_up_to_the_plan(sheet: Sheet, recorded: Recorded) -> None:
    for settings in (SETTINGS, replace(SETTINGS, trace=True)):
        found = make_sheet("small", [replace(recorded, settings=settings)])
        assert found.kernel_ns + found.wait_ns + found.transfer_ns == found.total_ns


def test_a_convolution_is_its_four_device_operations(sheet: Sheet) -> None:
    codes = [row.code for row in sheet.device_rows if row.step.kernel == "ttnn.conv2d"]
    assert codes == [
        "InterleavedToShardedDeviceOperation",
        "HaloDeviceOperation",
        "Conv2dDeviceOperation",
        "ShardedToInterleavedDeviceOperation",
    ]


def test_only_the_first_device_operation_of_a_call_waits(sheet: Sheet) -> None:
    waits = [row.wait_ns for row in sheet.device_rows if row.step.kernel == "ttnn.conv2d"]
    assert waits[0] > 0
    assert waits[1:] == [0, 0, 0]


def test_rows_follow_each_other_in_time(sheet: Sheet) -> None:
    for before, after in itertools.pairwise(sheet.rows):
        assert after.start_ns == before.start_ns + before.time.ns + after.wait_ns


def test_utilisation_is_of_the_cores_that_run_it(sheet: Sheet) -> None:
    product = next(row for row in sheet.device_rows if row.code == "MatmulDeviceOperation")
    expected = product.ideal_ns / product.time.ns * 64 / product.time.cores
    assert product.utilisation(sheet.chip) == pytest.approx(expected)
    assert 0 < expected < 1


def test_two_programs_are_one_sheet_one_after_the_other(recorded: Recorded) -> None:
    once, twice = make_sheet("x", [recorded]), make_sheet("x", [recorded, recorded])
    assert twice.total_ns == 2 * once.total_ns
    assert len(twice.rows) == 2 * len(once.rows)


def test_on_two_chips_the_wire_is_part_of_the_gather(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).eval()
    settings = {"precision": "bfloat16", "parallel": "tensor"}
    compile(model, torch.randn(64, 256), device="sim:n300", settings=settings, record=tmp_path)
    found = make_sheet("x", recording.load(tmp_path))
    assert [row.code for row in found.device_rows].count("AllGatherDeviceOperation") == 2
    assert found.kernel_ns + found.wait_ns + found.transfer_ns == found.total_ns
    assert all(program.chips == 2 for _, program in found.recorded[0].alternatives)
    perf.write(found, advise(found.recorded), tmp_path / "out", WHEN)


# --------------------------------------------------------------------------------------------- tt-metal's CSV


def test_headers_are_in_tt_metals_order(sheet: Sheet) -> None:
    found = headers(sheet)
    assert found[:8] == [
        *("OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID", "DEVICE ARCH", "ATTRIBUTES", "MATH FIDELITY"),
        "CORE COUNT",
    ]
    first = found.index("INPUT_0_W_PAD[LOGICAL]")
    assert found[first - 1] == "DISPATCH GO SEND WAIT TIME [ns]"
    assert found[first + 4 : first + 8] == [
        *("INPUT_0_LAYOUT", "INPUT_0_DATATYPE", "INPUT_0_MEMORY"),
        "INPUT_1_W_PAD[LOGICAL]",
    ]
    assert found.index("OUTPUT_0_MEMORY") + 1 == found.index("METAL TRACE ID")
    assert found[-1] == "NPE CONG IMPACT (%)"
    assert len(set(found)) == len(found)


def test_dimensions_are_padded_and_logical() -> None:
    cells = tensor_cells(TensorSpec((2, 20, 70), "bfloat16", "tile", L1))
    assert [cells[f"{d}_PAD[LOGICAL]"] for d in "WZYX"] == ["1[1]", "2[2]", "32[20]", "96[70]"]
    assert (cells["LAYOUT"], cells["DATATYPE"], cells["MEMORY"]) == ("TILE", "BFLOAT16", "DEV_0_L1_INTERLEAVED")


def test_more_than_four_dimensions_fold_into_the_first() -> None:
    cells = tensor_cells(TensorSpec((2, 3, 4, 32, 32), "float32", "tile", DRAM))
    assert cells["W_PAD[LOGICAL]"] == "6[6]"


def test_every_row_says_that_its_times_are_modelled(sheet: Sheet) -> None:
    found = rows_of(sheet)
    assert len(found) == len(sheet.device_rows)
    assert all("modelled by proveout" in row["ATTRIBUTES"] for row in found)
    assert all("," not in row["ATTRIBUTES"] for row in found)
    assert "modelled by proveout" in render_device_log(sheet).splitlines()[0]


def test_a_window_is_told_as_tools_look_for_it(sheet: Sheet) -> None:
    row = next(row for row in rows_of(sheet) if row["OP CODE"] == "Conv2dDeviceOperation")
    assert "window_hw=(3;3); " in row["ATTRIBUTES"]
    assert "padding=(1;1;1;1); " in row["ATTRIBUTES"]


def test_calls_are_numbered_past_the_devices_bits_and_host_ops_apart(recorded: Recorded) -> None:
    hosted = Step("aten.nonzero.default", (("self", Ref(recorded.program.inputs[0])),), ("where",), Origin())
    specs = {**recorded.program.specs, "where": TensorSpec((4, 2), "int64")}
    program = replace(recorded.program, body=(hosted, *recorded.program.body), specs=specs)
    first, second, *_ = rows_of(make_sheet("x", [replace(recorded, program=program)]))
    assert first["OP CODE"] == "(torch) aten.nonzero.default"
    assert (first["OP TYPE"], first["GLOBAL CALL COUNT"]) == ("python_fallback", str(1 << 31 | 1 << 10))
    assert (second["OP TYPE"], second["GLOBAL CALL COUNT"]) == ("tt_dnn_device", str(2 << 10))
    assert first["DEVICE KERNEL DURATION [ns]"] == ""


def test_only_a_traced_run_has_a_trace(recorded: Recorded) -> None:
    traced = make_sheet("x", [replace(recorded, settings=replace(SETTINGS, trace=True))])
    assert {row["METAL TRACE ID"] for row in rows_of(traced)} == {"0"}
    assert {row["METAL TRACE ID"] for row in rows_of(make_sheet("x", [recorded]))} == {""}


# ------------------------------------------------------------------------------------------------- the advice


def test_each_saving_is_what_the_plan_made_again_saves(recorded: Recorded) -> None:
    advice = advise([recorded])
    now = make_sheet("x", [recorded]).total_ns
    for line in advice:
        assert line.saves_ns == now - line.then_ns > 0
        now = line.then_ns
    trace = next(line for line in advice if line.change == "capture a trace")
    traced = replace(SETTINGS, trace=True)
    with_trace = recorded.under(traced)
    assert with_trace is not None
    again = program_time(step_times(with_trace, recorded.chip, traced), traced).ns
    assert trace.alone_ns == make_sheet("x", [recorded]).total_ns - again


def test_changes_of_different_operations_add_up(recorded: Recorded) -> None:
    traced = [replace(recorded, settings=replace(SETTINGS, trace=True))]
    advice = {a.change: a for a in advise(traced)}
    queue, configs = (advice[c] for c in ("a second queue for the transfers", "program configs for matrix products"))
    assert call_ns(traced) - predicted_ns(traced, [queue, configs]) == queue.alone_ns + configs.alone_ns


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "residual", "transformer", "gated"])
def test_what_is_advised_saves_what_was_predicted(name: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    kind, shape = MODELS[name]
    model, x = kind().eval(), torch.randn(shape)
    chosen = Settings(memory="dram", trace=True)
    compile(model, (x,), device="sim:n150", settings=chosen, record=tmp_path)
    recorded = recording.load(tmp_path)
    now = call_ns(recorded)
    advices = advise(recorded)
    assert advices
    for advice in advices:
        assert advice.settings, "every item can be applied"
        again = compile(model, (x,), device="sim:n150", settings=replace(chosen, **advice.settings), dry_run=True)
        predicted, realised = now - predicted_ns(recorded, [advice]), now - again.plan.total_ns
        assert abs(predicted - realised) <= 0.02 * abs(realised), advice.change


def test_every_change_of_settings_was_compiled_and_equal_programs_are_kept_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    compile(nn.Linear(64, 64), torch.randn(32, 64), device="sim:n150", settings=SETTINGS, record=tmp_path)
    (found,) = recording.load(tmp_path)
    left = [c for c in recording.CHANGES if recording.changed(found.settings, c) is not None]
    assert left
    assert all(found.with_change(change) is not None for change in left)
    programs = {program.fingerprint for _, program in found.alternatives}
    assert len(list(tmp_path.rglob("alternative*/program.json"))) == len(programs) < len(found.alternatives)


def test_what_is_on_already_is_not_advised(recorded: Recorded) -> None:
    settings = replace(SETTINGS, trace=True, queues=2, math_fidelity="LoFi")
    changes = {line.change for line in advise([replace(recorded, settings=settings)])}
    assert changes.isdisjoint({"capture a trace", "a second queue for the transfers", "math fidelity LoFi"})


def test_lower_weights_are_advised_by_a_program_compiled_so(recorded: Recorded) -> None:
    """One large product: its weights are most of what it reads."""
    traced = replace(SETTINGS, trace=True)
    packed = replace(traced, weights="bfloat8_b")
    program, other = _product("bfloat16"), _product("bfloat8_b")
    one = replace(recorded, settings=traced, program=program, fallbacks=())
    without = {line.change for line in advise([replace(one, alternatives=())])}
    line = next(
        a for a in advise([replace(one, alternatives=((packed, other),))]) if a.change == "weights in bfloat8_b"
    )
    assert "weights in bfloat8_b" not in without
    assert line.alone_ns > 0
    assert "--set weights=bfloat8_b" in line.how


def _product(weights: str) -> Program:
    specs = {
        "x": TensorSpec((32, 4096), "bfloat16", "tile", DRAM),
        "w": TensorSpec((4096, 4096), weights, "tile", DRAM),
        "y": TensorSpec((32, 4096), "bfloat16", "tile", DRAM),
    }
    attrs = (("input_tensor_a", Ref("x")), ("input_tensor_b", Ref("w")), ("dtype", Name("ttnn.bfloat16")))
    return Program("p", "ttnn", (), (), (), (), (), (Step("ttnn.matmul", attrs, ("y",)),), specs)


def test_conversions_of_layout_are_noted_with_what_they_take_and_are_no_advice(recorded: Recorded) -> None:
    specs = {
        "x": TensorSpec((1024, 1024), "bfloat16", "tile", DRAM),
        "y": TensorSpec((1024, 1024), "bfloat16", "row_major", DRAM),
    }
    attrs = (("tensor", Ref("x")), ("layout", Name("ttnn.ROW_MAJOR_LAYOUT")))
    origin = Origin("view", "aten.view.default", "blocks.0.attention", "/home/me/model.py:19")
    program = Program("p", "ttnn", (), (), (), (), (), (Step("ttnn.to_layout", attrs, ("y",), origin),), specs)
    one = replace(recorded, settings=replace(SETTINGS, trace=True), program=program, fallbacks=(), alternatives=())
    assert advise([one]) == ()
    (note,) = notes([one])
    assert (note.what, note.places) == ("1 conversion of layout", ("blocks.0.attention",))
    assert note.takes_ns == next(t.ns for t in step_times(program, one.chip, one.settings))


def test_an_op_on_the_host_is_noted_with_what_its_transfers_cost_and_is_no_advice(recorded: Recorded) -> None:
    hosted = Fallback("aten.nonzero.default", "no row", 1, "mask instead", modules=("head",), saved_ns=50_000)
    useless = replace(hosted, aten="aten.sort.default", saved_ns=0)
    one = replace(recorded, fallbacks=(hosted, useless))
    line = next(n for n in notes([one]) if "aten.nonzero.default" in n.what)
    assert (line.takes_ns, line.why, line.places) == (50_000, "mask instead", ("head",))
    assert not any("aten.sort" in n.what for n in notes([one]))
    assert advise([one]) == advise([recorded])
    text = perf_view.render(make_sheet("x", [one]), advise([one]), 80)
    assert "What takes time that no setting saves" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_change_of_some_calls_names_the_modules_that_gain(recorded: Recorded) -> None:
    traced = replace(recorded, settings=replace(SETTINGS, trace=True))
    lines = {line.change: line for line in advise([traced])}
    assert {"up", "down"} & set(lines["program configs for matrix products"].places)
    assert lines["a second queue for the transfers"].places == ()


# --------------------------------------------------------------------------------------------------- the view


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_view_fits_its_terminal(sheet: Sheet, width: int) -> None:
    text = perf_view.render(sheet, advise(sheet.recorded), width)
    assert max(map(len, text.splitlines())) <= width
    assert "All times are modelled, none is measured." in text


def test_the_view_is_sorted_by_cost_and_alike_rows_are_one_line(recorded: Recorded) -> None:
    lines = perf_view.lines_of(make_sheet("x", [recorded, recorded]))
    costs = [line.ns for line in lines]
    assert costs == sorted(costs, reverse=True)
    assert all(len(line.rows) >= 2 for line in lines)


def test_the_json_document_labels_its_times_and_is_strict(sheet: Sheet) -> None:
    document = perf_view.document(sheet, advise(sheet.recorded))
    assert document["kind"] == "modelled"
    timed = [row["ns"] for row in document["rows"] if row["kind"] == "device"]
    assert sum(timed) == document["kernel_ns"]


# -------------------------------------------------------------------------------------------------- the files


def test_files_are_where_the_tools_look(sheet: Sheet, tmp_path: Path) -> None:
    files = perf.write(sheet, (), tmp_path, WHEN)
    assert files["csv"] == tmp_path / "performance/2026_01_02_03_04_05/ops_perf_results_2026_01_02_03_04_05.csv"
    assert (files["performance"] / "profile_log_device.csv").exists()
    assert {p.name for p in files["memory"].iterdir()} == {"db.sqlite", "config.json", "cluster_descriptor.yaml"}
    assert "modelled" in json.loads((files["memory"] / "config.json").read_text())["times"]
    assert json.loads(files["sheet"].read_text())["kind"] == "modelled"


def test_the_database_names_device_operations_as_the_sheet_does(sheet: Sheet, tmp_path: Path) -> None:
    memory = perf.write(sheet, (), tmp_path, WHEN)["memory"]
    with sqlite3.connect(memory / "db.sqlite") as db:
        graphs = [
            json.loads(g) for (g,) in db.execute("select captured_graph from captured_graph order by operation_id")
        ]
        total = db.execute("select sum(duration) from operations").fetchone()[0]
        told = dict(db.execute("select key, value from report_metadata"))
    starts = [n["params"]["name"] for graph in graphs for n in graph if n["node_type"] == "function_start"]
    assert [name for name in starts if not name.startswith("ttnn.")] == [row.code for row in sheet.device_rows]
    assert total == pytest.approx(sheet.total_ns / 1e9)
    assert told["schema_version"] == "3.3"
    assert "modelled" in told["times"]


def test_buffers_after_each_operation_never_overlap_in_a_bank(sheet: Sheet, tmp_path: Path) -> None:
    memory = perf.write(sheet, (), tmp_path, WHEN)["memory"]
    with sqlite3.connect(memory / "db.sqlite") as db:
        rows = db.execute(
            "select operation_id, buffer_type, address, max_size_per_bank from buffers order by 1, 2, 3"
        ).fetchall()
    assert rows
    for (operation, kind, start, size), (next_operation, next_kind, next_start, _) in itertools.pairwise(rows):
        if (operation, kind) == (next_operation, next_kind):
            assert start + size <= next_start


def test_pcc_of_steps_goes_into_the_database(sheet: Sheet, tmp_path: Path) -> None:
    name = next(row.step.outputs[0] for row in sheet.device_rows)
    found = Comparison("step", name, 0.999, 0.01, 0.1, 0.97, True, accumulated_pcc=0.95)
    memory = perf.write(sheet, (), tmp_path, WHEN, [found])["memory"]
    with sqlite3.connect(memory / "db.sqlite") as db:
        local = db.execute("select matches, actual_pcc from local_tensor_comparison_records").fetchall()
        overall = db.execute("select matches, actual_pcc from global_tensor_comparison_records").fetchall()
    assert local == [(1, 0.999)]
    assert overall == [(0, 0.95)]


def test_a_sharded_memory_config_reads_as_ttnn_prints_it() -> None:
    memory = Memory("l1", "height", ShardSpec((64, 32), (8, 2)))
    text = memory_config(TensorSpec((1024, 32), "bfloat16", "tile", memory))
    assert text is not None
    assert text.startswith("MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1,")
    assert "grid={[(x=0,y=0) - (x=7,y=1)]},shape={64, 32}" in text


# ------------------------------------------------------------------------------------------------- recording


def test_nothing_is_recorded_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(recording.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    torch.compile(nn.Linear(32, 32), backend="proveout")(torch.randn(1, 32))
    assert not list(tmp_path.rglob("recorded.json"))


@pytest.mark.slow
def test_programs_of_a_process_are_recorded_in_order_with_their_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(recording.VARIABLE, str(tmp_path / "programs"))
    first = torch.compile(nn.Linear(32, 64), backend="proveout", options={"settings": {"trace": True}})
    second = torch.compile(nn.Linear(64, 32), backend="proveout", options={"device": "sim:p150"})
    with torch.no_grad():
        for _ in range(3):
            first(torch.randn(4, 32))
        second(torch.randn(4, 64))
    found = recording.load(tmp_path / "programs")
    assert [r.calls for r in found] == [3, 1]
    assert [r.chip for r in found] == [CHIPS["n150"], CHIPS["p150"]]
    assert [r.settings.trace for r in found] == [True, False]


def test_a_recorded_program_has_its_alternatives_under_other_settings(recorded: Recorded) -> None:
    chosen = {(s.trace, s.weights) for s, _ in recorded.alternatives}
    assert {(True, "same"), (False, "bfloat8_b"), (True, "bfloat8_b")} <= chosen
    assert recorded.under(replace(SETTINGS, queues=2)) is recorded.program
    assert recorded.as_under(replace(SETTINGS, trace=True)).program == recorded.alternatives[0][1]
    lower, by_settings = replace(recorded.settings, weights="bfloat8_b"), dict(recorded.alternatives)
    assert recorded.under(lower) == by_settings[lower]
    assert replace(recorded.settings, math_fidelity="LoFi") in by_settings, "it decides where results lie"
    assert recorded.under(replace(SETTINGS, weights="bfloat4_b")) is None


def test_a_damaged_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "program0").mkdir()
    (tmp_path / "program0" / "recorded.json").write_text("{")
    with pytest.raises(UsageError, match="program0 does not hold a recorded Program"):
        recording.load(tmp_path)
