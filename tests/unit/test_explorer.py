"""The explorer's logic: what the board reads and shows, kinds apart, links, empty pages; without a browser."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex

import pytest

st_testing = pytest.importorskip("streamlit.testing.v1")
pytest.importorskip("plotly")

from proveout.app import (  # noqa: E402
    data,
    explorer_bringup,
    explorer_charts,
    explorer_compare,
    explorer_models,
    explorer_program,
    tables,
)
from proveout.app.tables import Column  # noqa: E402
from proveout.bringup import Folder  # noqa: E402
from proveout.bringup.data import EndToEndData, GraphCause  # noqa: E402
from proveout.coding import to_json  # noqa: E402
from proveout.columns.parts import OpRow  # noqa: E402
from proveout.folders import write_whole  # noqa: E402
from record_stores import many, real, some, varied, write  # noqa: E402

PAGES = (
    "explorer_models",
    "explorer_model",
    "explorer_generation",
    "explorer_compare",
    "explorer_bringup",
    "explorer_sweep",
)


def shown(module, monkeypatch, folder, **query):
    """A page as the app runs it over a store."""

    def script(module):
        import importlib

        from proveout.app import theme

        theme.apply()
        importlib.import_module(f"proveout.app.{module}").page()

    monkeypatch.setenv("PROVEOUT_CACHE", str(folder))
    monkeypatch.chdir(folder)
    app = st_testing.AppTest.from_function(script, args=(module,), default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, app.exception
    return app


def text_of(app):
    parts = [*app.get("html"), *app.markdown, *app.caption, *app.info, *app.warning, *app.error, *app.success]
    return " ".join(str(getattr(part, "value", "") or getattr(part.proto, "body", "")) for part in parts)


@pytest.mark.parametrize("module", PAGES)
def test_an_empty_store_says_which_command_fills_it(module, monkeypatch, tmp_path):
    assert "proveout " in text_of(shown(module, monkeypatch, tmp_path))


def test_a_bad_file_is_listed_and_the_rest_is_shown(monkeypatch, tmp_path):
    board = data.board(some(tmp_path))
    assert len(board.entries) == 5
    assert [name for name, _ in board.unreadable] == ["lab/torn.json"]
    app = shown("explorer_models", monkeypatch, tmp_path)
    assert app.expander[0].label == "1 file could not be read"


def test_a_file_is_read_again_only_when_it_changed(monkeypatch, tmp_path):
    path = write(tmp_path, real("conv"), "conv")
    before = data.board(tmp_path).entries[0]
    assert data.board(tmp_path).entries[0] is before
    write(tmp_path, varied(real("conv"), 2, "renamed"), "conv")
    os.utime(path, ns=(1, 1))
    assert data.board(tmp_path).entries[0].row.model == "renamed"


def test_measured_and_modelled_times_have_columns_of_their_own(monkeypatch, tmp_path):
    many(tmp_path, 24)
    frame = shown("explorer_models", monkeypatch, tmp_path).dataframe[0].value
    both = frame["Modelled ms"].notna() & frame["Measured ms"].notna()
    assert frame["Modelled ms"].notna().any()
    assert frame["Measured ms"].notna().any()
    assert not both.any()


def test_the_newest_record_of_each_subject_stands_for_its_history(tmp_path):
    board = data.board(many(tmp_path, 24))
    newest = explorer_models.chosen(board, explorer_models.Wanted())
    assert len(newest) == 6
    assert all(board.history(entry)[-1] is entry for entry in newest)
    assert len(explorer_models.chosen(board, explorer_models.Wanted(latest=False))) == 24


def test_one_model_in_two_corpora_is_two_subjects(tmp_path):
    write(tmp_path, real("conv"), "one")
    other = real("conv")
    other["job"]["workload"]["script"] = "/elsewhere/other_corpus/conv.py"
    write(tmp_path, other, "two")
    board = data.board(tmp_path)
    assert len(explorer_models.chosen(board, explorer_models.Wanted())) == 2


def test_the_board_filters_and_sorts(tmp_path):
    board = data.board(many(tmp_path, 48))
    wanted = explorer_models.Wanted(text="ATTENTION", devices=("cpu",), latest=False)
    assert {e.row.device for e in explorer_models.chosen(board, wanted)} == {"cpu"}
    slow = explorer_models.chosen(board, explorer_models.Wanted(sort="slowest, modelled", latest=False))
    times = [e.latency_ms("modelled") for e in slow]
    known = [t for t in times if t is not None]
    assert known == sorted(known, reverse=True)
    assert times[: len(known)] == known, "what has no modelled time comes last"


def test_the_filter_of_an_address_is_applied(monkeypatch, tmp_path):
    app = shown("explorer_models", monkeypatch, some(tmp_path), find="conv")
    assert list(app.dataframe[-1].value["Model"] if len(app.dataframe) == 1 else app.dataframe[1].value["Model"]) == [
        "conv"
    ]


def test_a_deep_link_names_a_record_its_key_or_a_model(tmp_path):
    board = data.board(some(tmp_path))
    assert board.find("lab/conv").id == board.find("conv").id == "lab/conv"
    assert board.find("nothing") is None


@pytest.mark.parametrize("section", ["Overview", "Ops", "Accuracy", "Memory", "Performance", "Graph", "Timings"])
def test_every_section_of_a_model_has_something_to_say(section, monkeypatch, tmp_path):
    app = shown("explorer_model", monkeypatch, some(tmp_path), record="lab/conv", section=section)
    assert "conv" in text_of(app)
    if section in ("Memory", "Performance", "Graph"):
        assert "proveout perf corpora/selftest/conv.py::" in text_of(app), (
            "says what to run where no Program is on disk"
        )
    else:
        assert app.dataframe


def test_a_record_that_is_not_there_is_no_crash(monkeypatch, tmp_path):
    assert "No such Record" in text_of(shown("explorer_model", monkeypatch, some(tmp_path), record="lab/gone"))


def compared(folder, a, b):
    """Which ratios the comparison of two Records tells, by the figure's name."""
    write(folder, a, "a")
    write(folder, b, "b")
    entries = [data.board(folder).find(f"lab/{name}") for name in "ab"]
    left, right = (entry.row for entry in entries)
    lines = explorer_compare.differences(left, right, *map(data.record, entries))
    return left, right, {line["what"]: line["ratio"] for line in lines}


def standing(document, verdict="steady"):
    """The same with times of this verdict."""
    timings = [t | {"verdict": verdict, "interval_ns": [1.0, 2.0]} for t in document["timings"]]
    return document | {"timings": timings}


def test_a_ratio_of_two_kinds_says_so(tmp_path):
    left, right, ratios = compared(tmp_path, standing(real("conv")), standing(varied(real("conv"), 8, "conv")))
    assert (left.compiled_kind, right.compiled_kind) == ("modelled", "measured")
    assert ratios["Compiled, ms"].endswith("measured ÷ modelled: not of one kind")
    assert ratios["Original on eager CPU, ms"].endswith("× measured")


@pytest.mark.parametrize("verdict", ["unsteady", "too few", "not judged"])
def test_no_ratio_is_told_of_a_time_that_does_not_stand(verdict, tmp_path, monkeypatch):
    whole = standing(varied(real("conv"), 8, "conv"))
    _, _, ratios = compared(tmp_path, whole, standing(whole, verdict))
    for figure in ("Compiled, ms", "Original on eager CPU, ms"):
        assert ratios[figure].startswith("not shown: on the right, the ")
    assert ratios.get("Compile, s", "") == ""
    text = text_of(shown("explorer_compare", monkeypatch, tmp_path, left="lab/a", right="lab/b"))
    assert "which one is quicker is not shown: on the right, the device's time" in text
    assert "× quicker" not in text


def test_a_comparison_shows_differences_first(monkeypatch, tmp_path):
    app = shown("explorer_compare", monkeypatch, some(tmp_path), left="lab/attention", right="lab/attention-later")
    changed, same = (h.proto.body for h in app.get("html") if "<table" in h.proto.body)
    assert "<td>Made</td>" in changed
    assert "<td>Model</td>" not in changed
    assert "<td>Model</td>" in same


def test_a_comparison_starts_with_two_results_of_one_model_and_whole_numbers_are_whole(monkeypatch, tmp_path):
    newest = sorted(data.board(many(tmp_path, 9)).entries, key=lambda e: e.row.created, reverse=True)
    left, right = explorer_compare.first_pair(newest)
    assert left.row.model == right.row.model
    assert left is not right
    shown_as = {f.name: f.show(left.row) for f in explorer_compare.FIGURES}
    assert shown_as["ATen ops"].isdigit()
    assert "." not in shown_as["Parameters"]


def test_the_chart_of_ops_has_those_on_the_host_however_rare_they_are(monkeypatch):
    rows = [OpRow(f"aten.op{n}.default", "converted", "", 100 + n) for n in range(40)]
    rows.append(OpRow("aten.sort.default", "host", "", 1))
    drawn = []
    monkeypatch.setattr(explorer_charts.theme, "chart", lambda figure, **_: drawn.append(figure))
    explorer_charts.show_op_states(rows)
    (host,) = [bar for bar in drawn[0].data if bar.name == "host"]
    assert dict(zip(host.y, host.x))["sort"] == 1


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((0.04, 8.0), ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"]),
        ((3.0, 20_000.0), ["10", "100", "1,000", "10,000"]),
        ((11.0, 14.0), ["12"]),
    ],
)
def test_a_logarithmic_axis_has_ticks_that_can_be_read(values, ticks):
    axis = explorer_charts.theme.log_axis(values)
    assert set(ticks) <= set(axis["ticktext"])
    assert 1 <= len(axis["ticktext"]) <= 12
    low, high = axis["range"]
    assert 10**low < min(values) < max(values) < 10**high


def test_a_suggested_command_has_all_that_makes_the_same_model(monkeypatch, tmp_path):
    small = real("conv")
    small["job"]["workload"]["script_args"] = "--small"
    small["job"]["workload"]["weights"] = "random"
    write(tmp_path, small, "small")
    (entry,) = data.board(tmp_path).entries
    monkeypatch.setattr("sys.argv", ["main.py", "--cache-dir", str(tmp_path)])
    words = shlex.split(explorer_program.command("perf", entry))
    assert words[:2] == ["proveout", "perf"]
    for option, value in (("--script-args", "--small"), ("--weights", "random"), ("--cache-dir", str(tmp_path))):
        assert words[words.index(option) + 1] == value
    task = real("conv")
    task["job"]["workload"]["script"] = ""
    write(tmp_path, task, "task")
    assert explorer_program.command("perf", data.board(tmp_path).find("lab/task")) == ""


def test_downloads_hold_all_rows_and_all_digits():
    rows = [{"pcc": 0.9999999999, "ops": ("a", "b")}, {"pcc": None, "ops": ()}]
    text = tables.render_csv(rows, [Column("pcc", "PCC", "pcc"), Column("ops", "Ops")])
    assert list(csv.reader(io.StringIO(text))) == [["pcc", "ops"], ["0.9999999999", "a b"], ["", ""]]


def test_a_pcc_is_never_rounded_up_to_one():
    assert tables._seen(Column("pcc", "PCC", "pcc"), 0.99999999) == 0.999999
    assert tables._seen(Column("pcc", "PCC", "pcc"), 1.0) == 1.0


def test_bring_ups_are_found_with_their_stages(monkeypatch, tmp_path):
    stages = tmp_path / "bringup" / "bert" / "stages"
    stages.mkdir(parents=True)
    for number, name, status in [(1, "card", "passed"), (3, "graph", "attention")]:
        stage = {
            "number": number,
            "name": name,
            "title": name.capitalize(),
            "status": status,
            "headline": f"{name} told",
        }
        more = {"findings": ["one thing"], "next_step": "look here", "files": [["card.md", "0"]], "data": {}}
        (stages / f"{number:02}-{name}.json").write_text(json.dumps(stage | more))
    (stages / "04-summary.json").write_text("{")
    for name in ("summary", "optimise"):  # two workers
        write_whole(Folder(tmp_path / "bringup" / "bert").mark_of(name), name)
    (found,) = explorer_bringup.find(tmp_path / "bringup")
    assert [s.name for s in found.stages] == ["card", "graph"]
    assert found.running == ("summary", "optimise")
    app = shown("explorer_bringup", monkeypatch, tmp_path)
    assert [e.label for e in app.expander] == ["✓ **1 Card** · card told", "! **3 Graph** · graph told"]
    assert "look here" in text_of(app)
    assert all(f"▸ {name}" in text_of(app) for name in found.running)


def test_a_bring_up_shows_the_picture_of_where_its_error_comes_from(monkeypatch, tmp_path):
    folder = tmp_path / "bringup" / "bert"
    (folder / "stages").mkdir(parents=True)
    why = GraphCause('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>', ("it adds 1 %",))
    figures = EndToEndData((), 0.99, None, "", None, (why,))
    stage = {"number": 7, "name": "end-to-end", "title": "End to end", "status": "passed", "headline": "told"}
    more = {"findings": [], "next_step": "", "files": [], "data": to_json(figures)}
    (folder / "stages" / "07-end-to-end.json").write_text(json.dumps(stage | more))
    app = shown("explorer_bringup", monkeypatch, tmp_path)
    assert not app.exception
    assert len(app.get("image")) == 1


@pytest.mark.slow
def test_programs_on_disk_explain_every_record_of_the_same_run(monkeypatch, tmp_path):
    import torch

    from proveout.engine.compiled import compile
    from proveout.types import Settings

    model, args = torch.nn.Linear(64, 64), (torch.randn(32, 64),)
    folder = tmp_path / "programs"
    compiled = compile(
        model, device="sim:n150", settings=Settings(precision="bfloat16"), record=folder, call=(args, {})
    )
    compiled(*args)
    prints = [[p.fingerprint, len(p.steps)] for p in compiled.programs]
    with_folder, without = real("conv") | {"programs": prints}, real("conv") | {"programs": prints}
    with_folder["job"]["artifacts"] = str(folder)
    write(tmp_path, with_folder, "with")
    write(tmp_path, without, "without")
    elsewhere = real("conv") | {"programs": prints}
    elsewhere["job"]["device"] = "sim:p150"
    write(tmp_path, elsewhere, "elsewhere")
    board = data.board(tmp_path)
    entry = board.find("lab/without")
    (found,) = data.recorded(board, entry)
    assert found.program.fingerprint == prints[0][0]
    assert not board.with_programs(board.find("lab/elsewhere")), "another chip takes another time for the same calls"
    for section in ("Memory", "Performance", "Graph"):
        app = shown("explorer_model", monkeypatch, tmp_path, record="lab/without", section=section)
        assert "not on disk" not in text_of(app)
    sheet = data.sheet(entry, [found])
    from proveout.report.perf.roofline import points, roofs

    (product,) = [p for p in points(sheet) if "Matmul" in p.name]
    assert 0 < product.tflop_s < roofs(sheet.chip, ["HiFi2"])[0].tflop_s


@pytest.mark.slow
def test_a_record_without_a_folder_is_explained_from_the_cache_of_compiled_graphs(monkeypatch, tmp_path):
    import torch

    from proveout.engine.cache import program_of
    from proveout.engine.compiled import compile
    from proveout.types import Settings

    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path))
    args = (torch.randn(32, 64),)
    compiled = compile(
        torch.nn.Linear(64, 64), device="sim:n150", settings=Settings(precision="bfloat16"), call=(args, {})
    )
    compiled(*args)
    prints = [[p.fingerprint, len(p.steps)] for p in compiled.programs]
    write(tmp_path, real("conv") | {"programs": prints}, "bare")
    for section in ("Memory", "Performance", "Graph"):
        app = shown("explorer_model", monkeypatch, tmp_path, record="lab/bare", section=section)
        assert "No compiled program" not in text_of(app)
    (sealed,) = (tmp_path / "programs").glob("*.program")
    sealed.write_bytes(sealed.read_bytes().replace(b"ttnn.linear", b"ttnn.matmul"))
    assert program_of(prints[0][0]) is None, "a file that another hand changed is not shown"


def test_bring_ups_are_looked_for_where_they_are_written_and_then_beside_the_cache(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cache = tmp_path / "demo" / "cache"
    assert explorer_bringup.first_folder(cache) == "bringup"
    (tmp_path / "demo" / "bringup").mkdir(parents=True)
    assert explorer_bringup.first_folder(cache) == str(tmp_path / "demo" / "bringup")
    (tmp_path / "bringup").mkdir()
    assert explorer_bringup.first_folder(cache) == "bringup"
