"""Claims about reports: the same Records give the same bytes, nothing is hidden, nothing is fetched."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from test_store import make_record

from proveout import report
from proveout.columns.table import row
from proveout.columns.words import number, pcc_text
from proveout.errors import EnvironmentFault, UsageError
from proveout.report import save_tables
from proveout.report.tables import corpus_ops, data, html, markdown, readme, terminal
from proveout.report.tables.ledger import _saves
from proveout.report.tables.rows import COLUMNS, Report, load, script_name
from proveout.store import Store
from proveout.types import Comparison, Coverage, MemoryUse, OpStatus, Origin, Record, Timing

FAILED = make_record("bad_net", status="failed", failure="numerics", reason="PCC 0.91 where 0.99 was asked")
EXPECTED = make_record(
    "fails", status="expected_failure", failure="script", reason="ValueError: as its label says",
    coverage=Coverage(), memory=MemoryUse(), timings=(), comparisons=(),
)  # fmt: skip
EVIL = "<script>alert('x')</script>|*_"


def filled(folder: Path, *records: Record) -> Store:
    store = Store(folder)
    for record in records or (make_record(), make_record("linear", "cpu"), FAILED, EXPECTED):
        store.write(record)
    return store


def of(*records: Record) -> Report:
    return Report(records, tuple(map(row, records)))


def test_the_same_records_give_byte_identical_files(tmp_path: Path) -> None:
    records = [make_record(), make_record("linear", "cpu"), FAILED, EXPECTED]
    one = report.write(filled(tmp_path / "a", *records), tmp_path / "out-a")
    two = report.write(filled(tmp_path / "b", *records[::-1]), tmp_path / "out-b")
    main = ["report.md", "report.csv", "report.json", "report.html", "ops.md", "ops.csv"]
    assert [p.name for p in one if p.parent.name == "out-a"] == main
    assert [p.parent.name for p in one].count("models") == 4
    assert [p.parent.name for p in one].count("ops") == 3, "one a model that was captured"
    assert [p.name for p in one] == [p.name for p in two]
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_writing_leaves_only_the_report(tmp_path: Path) -> None:
    report.write(filled(tmp_path / "store"), tmp_path / "out", formats=("csv",))
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"report.csv", "ops.csv", "ops"}
    report.write(filled(tmp_path / "store"), tmp_path / "md", formats=("md",))
    assert {p.name for p in (tmp_path / "md").iterdir()} == {"report.md", "ops.md", "models"}


def test_an_empty_store_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no results in .*Run: proveout benchmark SCRIPT.py"):
        report.write(Store(tmp_path), tmp_path / "out")


def test_an_unwritable_folder_says_which_option_to_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="-o DIR"):
        report.write(filled(tmp_path / "store"), tmp_path / "file" / "out")


def test_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown report format 'pdf'; valid: csv, html, json, md"):
        report.write(filled(tmp_path / "store"), tmp_path / "out", formats=("pdf",))


def test_every_format_lists_the_file_that_could_not_be_read(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "dead.json").write_text('{"schema": 3}')
    found = load(store)
    for render in (*report.FORMATS.values(), terminal.render):
        text = render(found)
        assert "box/dead.json" in text
        assert "has schema 3; this version reads 1" in text
    assert "1 file could not be read:" in markdown.render(found)


# --------------------------------------------------------------------------------------------- values


def test_a_time_carries_its_kind_in_a_cell_of_its_own() -> None:
    titles = [c.title for c in COLUMNS]
    cells = dict(zip(titles, (c.text(row(make_record())) for c in COLUMNS), strict=True))
    assert cells["Original Run Time (ms)"] == "0.409 (measured)"
    assert cells["Compiled Run Time (ms)"] == "0.042 (modelled)"


def test_accuracy_is_shown_in_the_per_cent_it_is_stored_in() -> None:
    accuracy = next(c for c in COLUMNS if c.title == "Accuracy (%)")
    assert accuracy.text(row(make_record(accuracy=97.5))) == "97.50"


def test_every_column_is_explained() -> None:
    assert [c.title for c in COLUMNS if len(c.explain) < 20] == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, None), (0, "0"), (0.00012345, "0.000123"), (1, "1.00"), (3619.024, "3,619.02")],
)
def test_numbers_are_shown_as_people_read_them(value: float | None, shown: str | None) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "1"), (0.99999999, "0.999999"), (0.91, "0.910000"), (-1.0, "-1.000000")]
)
def test_a_pcc_below_one_is_never_rounded_up_to_one(value: float, shown: str) -> None:
    assert pcc_text(value) == shown


# -------------------------------------------------------------------------------------------- formats


def test_markdown_has_the_seed_tables() -> None:
    text = markdown.render(of(make_record(), FAILED, EXPECTED))
    head, _, first = text[text.index("| Model") :].splitlines()[:3]
    assert head == (
        "| Model | Device | Run Success | Torch Ops Before (Unique Ops) | Torch Ops Remain (Unique Ops) "
        "| To/From Device Ops | Original Run Time (ms) | Compiled Run Time (ms) | PCC | Accuracy (%) "
        "| Fits in memory | Peak SRAM usage (in MB) | Reason |"
    )
    assert first == (
        f"| [linear](<models/{data.page_name(make_record())}.md>) | sim:n150 bfloat16 fast "
        "| ✅ | 4 (4) | 1 (1) | 3 | 0.409 (measured) | 0.042 (modelled) "
        "| 0.999870 | N/A | yes | 2.50 |  |"
    )
    assert "| ✘ (expected) |" in text
    assert "PCC 0.91 where 0.99 was asked |" in text
    assert "### Explanation of Metrics" in text
    assert "| `aten.sort.default` | ✘ | 1 | 1 | no kernel sorts along a dimension of 64 |" in text
    assert "| `aten.t.default` | ✂ | 1 |  |  |" in text


def test_markdown_cells_survive_hostile_names() -> None:
    text = markdown.render(of(make_record(EVIL, reason="a|b\nc")))
    table = text[text.index("| Model") :].split("\n\n")[0].splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {14}
    assert "<script>" not in text


def test_csv_has_a_row_a_record_with_kinds_in_columns_of_their_own() -> None:
    rows = list(csv.DictReader(io.StringIO(data.render_csv(of(make_record(), make_record("linear", "cpu"))))))
    assert [(r["device"], r["compiled_ms"], r["compiled_kind"]) for r in rows] == [
        ("sim:n150", "0.042", "modelled"),
        ("cpu", "0.042", "measured"),
    ]


def test_json_is_strict_and_holds_the_parts() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    document = json.loads(data.render_json(of(make_record())), parse_constant=refuse)
    (record,) = document["records"]
    assert {op["aten"]: op["state"] for op in record["ops"]}["aten.sort.default"] == "host"
    assert [t["kind"] for t in record["timings"]] == ["measured", "modelled", "measured"]
    assert len(record["comparisons"]) == 2


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160, 250])
def test_the_terminal_table_fits_its_terminal(width: int) -> None:
    text = terminal.table([row(r) for r in (make_record("a/" + "long-" * 12), FAILED, EXPECTED)], width)
    table = text.partition("Hidden (terminal too narrow)")[0]
    assert max(map(len, table.splitlines())) <= width
    for words in ("Model", "Status", "failed"):
        assert words in text


def test_the_terminal_says_why_something_failed() -> None:
    assert "✘ bad_net on sim:n150: PCC 0.91 where 0.99 was asked" in terminal.render(of(FAILED), 60)


def test_the_terminal_ranks_host_ops_with_cost_reason_place_and_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    text = "\n".join(terminal.ledger(make_record()))
    assert "1 op of linear stays on the host, most worth changing first:" in text
    cells = next(line for line in text.splitlines() if line.lstrip().startswith("1   "))
    for figure in ("aten.sort.default", "66.7 %", "4.20 µs", "10.0 %", "4.20 µs faster, 2 transfers fewer"):
        assert figure in cells
    assert "why   no kernel sorts along a dimension of 64" in text
    assert "where top, linear.py:7" in text
    assert "fix   pad the dimension to 128" in text
    assert "count transfers only" in text
    assert terminal.ledger(make_record(fallbacks=())) == []


def test_the_terminal_tells_graph_breaks_with_or_without_a_ledger() -> None:
    coverage = dataclasses.replace(make_record().coverage, graph_breaks=("m.py:3: Dynamic shape operator",))
    for fallbacks in ((), make_record().fallbacks):
        lines = terminal.ledger(make_record(coverage=coverage, fallbacks=fallbacks))
        assert lines[-2].startswith("1 graph break;")
        assert lines[-1] == "    m.py:3: Dynamic shape operator"


def test_an_op_on_a_device_without_a_model_has_no_modelled_figures() -> None:
    line = dataclasses.replace(make_record().fallbacks[0], transfer_ns=None, time_share=None, saved_ns=None)
    text = "\n".join(terminal.ledger(make_record(fallbacks=(line,))))
    assert "µs" not in text
    assert "modelled" not in text
    assert "If converted" not in text
    assert "fix   pad the dimension to 128" in text


def test_a_model_that_was_only_compiled_has_no_run_success() -> None:
    dry = make_record()
    dry = dataclasses.replace(dry, job=dataclasses.replace(dry.job, do=("compile",)))
    assert "| — (not run) |" in markdown.render(of(dry))
    assert "compiled" in terminal.table([row(dry)], 200)
    page = html.render(of(dry))
    assert "✓ compiled" in page
    tiles = re.findall(r"<b>(\d+)</b><span>(passed|compiled|failed)</span>", page)
    assert tiles == [("0", "passed"), ("1", "compiled"), ("0", "failed")]
    failed = dataclasses.replace(dry, status="failed", reason="no graph")
    assert "| ✘ |" in markdown.render(of(failed))


def test_the_op_report_has_a_row_for_each_way_an_op_is_called() -> None:
    ops = (
        OpStatus("add", "aten.add.Tensor", "converted", inputs="self=f32[2], other=1", source="m.py:1"),
        OpStatus("add_1", "aten.add.Tensor", "converted", inputs="self=f32[2], other=1", source="m.py:2"),
        OpStatus("add_2", "aten.add.Tensor", "converted", inputs="self=f32[4], other=1", source="m.py:3"),
        OpStatus("add_3", "aten.add.Tensor", "removed", "share repeated", "self=f32[2], other=1", source="m.py:4"),
    )
    comparisons = tuple(
        Comparison("step", name, pcc, 0, 0, 0.97, True, origin=Origin(name, "aten.add.Tensor", "", source))
        for name, pcc, source in (("add", 0.999, "m.py:1"), ("add_1", 0.99, "m.py:2"))
    )
    record = make_record(coverage=Coverage(ops, 0, 1), comparisons=comparisons)
    text = data.render_ops_csv(record)
    assert text.splitlines()[0] == ",".join(data.OP_COLUMNS)
    assert [(r["state"], r["inputs"], r["count"], r["pcc"]) for r in csv.DictReader(io.StringIO(text))] == [
        ("converted", "self=f32[2], other=1", "2", "0.99"),
        ("converted", "self=f32[4], other=1", "1", ""),
        ("removed", "self=f32[2], other=1", "1", ""),
    ]
    assert "| `aten.add.Tensor` | ✅ | 3 | 2 |  |" in markdown.render(of(record))
    assert "2 × <code>self=f32[2], other=1</code> PCC 0.990000" in html.render(of(record))
    (found,) = json.loads(data.render_json(of(record)))["records"]
    assert [v["count"] for v in found["variations"]] == [2, 1, 1]


def test_every_column_of_the_op_report_is_explained_in_markdown() -> None:
    text = markdown.render(of(make_record()))
    assert [name for name in data.OP_COLUMNS if f"**{name}**:" not in text] == []


def test_every_report_has_the_ledger() -> None:
    report = of(make_record())
    assert "pad the dimension to 128" in html.render(report)
    assert (
        "| 1 | aten.sort.default | 1 | 2 | 66.7 % | 4.20 µs | 10.0 % | 4.20 µs faster, 2 transfers fewer "
        "| no kernel sorts along a dimension of 64 | pad the dimension to 128 |"
    ) in markdown.render_model(report.records[0], report.rows[0])
    (line,) = json.loads(data.render_json(report))["records"][0]["fallbacks"]
    assert (line["rank"], line["saved_ns"], line["sources"]) == (1, 4200, ["models/linear.py:7"])


def test_each_row_of_the_markdown_report_links_to_a_page_that_is_there(tmp_path: Path) -> None:
    report.write(filled(tmp_path / "store", make_record(EVIL), FAILED), tmp_path / "out", formats=("md",))
    links = set(re.findall(r"\]\(<(.+?)>\)", (tmp_path / "out" / "report.md").read_text()))
    assert len(links) == 2
    assert all((tmp_path / "out" / link).is_file() for link in links)


def test_a_model_s_page_tells_its_variations_comparisons_and_timings() -> None:
    record = make_record()
    text = markdown.render_model(record, row(record))
    assert "| `aten.sort.default` | self=f32\\[64\\] | ✘ | 1 |  |" in text
    assert "| compiled | modelled | sim:n150 | 0.042 | N/A | N/A |" in text
    assert "## Outputs against the reference" in text


def test_a_script_below_this_folder_is_named_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert script_name(str(tmp_path / "corpora/bert.py")) == "corpora/bert.py"
    assert script_name("/elsewhere/bert.py") == "/elsewhere/bert.py"


def test_a_model_s_name_says_what_its_script_was_given() -> None:
    """`--small` is another size: its figures must not be taken for the published model's."""
    one = make_record()
    small = dataclasses.replace(one.job.workload, script_args="--small")
    found = of(dataclasses.replace(one, job=dataclasses.replace(one.job, workload=small)))
    for render in (*report.FORMATS.values(), terminal.render):
        assert "--small" in render(found)
        assert "--small" not in render(of(one)).replace("`--small`", "")
    assert "| [linear --small](<models/" in markdown.render(found)


def test_models_of_one_name_from_two_corpora_are_told_apart() -> None:
    one = make_record()
    moved = dataclasses.replace(one.job.workload, script="/elsewhere/other_corpus/linear.py")
    two = dataclasses.replace(one, job=dataclasses.replace(one.job, workload=moved))
    both, alone = of(one, two), of(one)
    assert "| Model | Corpus | Device |" in markdown.render(both)
    assert re.findall(r"^\| \[linear\]\(<[^|]*\| ([a-z_]+) \|", markdown.render(both), re.MULTILINE) == [
        "models",
        "other_corpus",
    ]
    assert "other_corpus" in html.render(both)
    assert "Corpus" not in "".join(markdown.supported_models(alone, "models"))


def test_at_a_glance_counts_by_corpus_and_device() -> None:
    dry = make_record("dry")
    dry = dataclasses.replace(dry, job=dataclasses.replace(dry.job, do=("compile",)))
    text = "\n".join(markdown.at_a_glance(of(make_record(), make_record("x", "cpu"), FAILED, EXPECTED, dry)))
    assert "| models | cpu | 1 | 1 | 1 | 0 | 0 | 0 | 0.999870 | 75.0 |" in text
    assert "| models | sim:n150 | 4 | 4 | 1 | 1 | 1 | 1 | 0.999870 | 75.0 |" in text


# -------------------------------------------------------------------------------------- ops over all models


def test_variations_over_all_models_count_their_nodes_and_callers() -> None:
    other = make_record("other")
    ways = corpus_ops.variations((make_record(), make_record("linear", "cpu"), other), "sort")
    assert [(w.count, w.models, w.state) for w in ways] == [(3, ("linear", "other"), "host")]


def test_the_op_table_begins_with_what_most_models_have_on_the_host() -> None:
    first, *rest = corpus_ops.summary((make_record(), make_record("other")))
    assert (first.aten, first.host, first.host_models, first.models) == ("aten.sort.default", 2, 2, 2)
    assert {row.host for row in rest} == {0}


def test_no_cell_of_any_csv_begins_a_formula_of_a_stranger() -> None:
    ops = (OpStatus("n", "aten.add.Tensor", "host", "@SUM(A1)", inputs="-self"),)
    report = of(
        make_record('=HYPERLINK("http://x")', coverage=Coverage(ops, 0, 1), status="failed", reason="+cmd|' /C'!A0")
    )
    for text in (corpus_ops.render_csv(report), data.render_csv(report), data.render_ops_csv(report.records[0])):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "-s"))]


def test_ops_csv_has_every_variation_and_markdown_the_most_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_ops, "MOST_VARIATIONS", 1)
    ops = tuple(OpStatus(f"n{i}", "aten.add.Tensor", "converted", inputs=f"self=f32[{min(i, 1)}]") for i in range(3))
    report = of(make_record(coverage=Coverage(ops, 0, 1)))
    rows = list(csv.DictReader(io.StringIO(corpus_ops.render_csv(report))))
    assert [(r["inputs"], r["count"], r["models"]) for r in rows] == [
        ("self=f32[1]", "2", "1"),
        ("self=f32[0]", "1", "1"),
    ]
    text = corpus_ops.render_markdown(report)
    assert "self=f32\\[1\\]" in text
    assert "self=f32\\[0\\]" not in text
    assert [name for name in corpus_ops.SUMMARY_COLUMNS if f"**{name}**:" not in text] == []


# --------------------------------------------------------------------------------------------- README

TEMPLATE = "# Mine\n<!-- proveout:models -->\nstale\n<!-- /proveout:models -->\nkept\n"


def test_a_readme_keeps_what_is_outside_its_markers_and_can_be_filled_again() -> None:
    once = readme.fill(TEMPLATE, of(make_record()), "docs/report/models", "docs/README.md.in")
    assert once.startswith("# Mine\n")
    assert once.endswith("kept\n")
    assert "stale" not in once
    assert "edit docs/README.md.in" in once
    assert "](<docs/report/models/linear-sim-n150-" in once
    assert readme.fill(once, of(make_record()), "docs/report/models", "docs/README.md.in") == once


def test_a_readme_s_links_lead_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    template = Path("docs/README.md.in")
    template.write_text(TEMPLATE)
    written = readme.write_readme(of(make_record()), template, readme.default_output(template), Path("docs/report"))
    assert written == Path("README.md")
    assert "](<docs/report/models/" in written.read_text()
    assert template.read_text() == TEMPLATE


def test_the_tables_alone_lead_to_no_other_file(tmp_path):
    template = tmp_path / "template.md"
    template.write_text("<!-- proveout:models -->\n<!-- /proveout:models -->\n")
    report = of(make_record())
    written = save_tables(report, tmp_path / "out")
    assert [path.name for path in written] == ["report.md", "ops.md"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ops.md", "report.md"]
    readme.write_readme(report, template, template, None)
    for text in (written[0].read_text(), template.read_text()):
        assert "| linear" in text
        assert "](<" not in text
        assert "Op conversion status per model" not in text


def test_a_template_without_markers_or_with_strange_ones_is_refused() -> None:
    with pytest.raises(UsageError, match="Add the lines <!-- proveout:models -->"):
        readme.fill("# Mine\n", of(make_record()), "models")
    with pytest.raises(UsageError, match=r"unknown part in the template: 'modles'.*Did you mean 'models'"):
        readme.fill(TEMPLATE.replace("models", "modles"), of(make_record()), "models")


# ----------------------------------------------------------------------------------------------- HTML


class Page(HTMLParser):
    """The tags and attributes of a page, and the text of each cell of its first table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: dict[str, str] = {}
        self._label: str | None = None
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self._open.append(tag)
        if tag == "td":
            self._label = dict(attrs).get("data-label")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag == "td":
            self._label = None

    def handle_data(self, text: str) -> None:
        if self._label:
            self.cells[self._label] = self.cells.get(self._label, "") + text


def test_html_is_well_formed_and_asks_for_nothing_outside() -> None:
    text = html.render(of(make_record(), make_record("linear", "cpu"), FAILED, EXPECTED))
    assert not re.search(r"https?://|//cdn|@import|url\((?!#)", text)
    page = Page(text)
    assert page._open == []
    fetching = {"link", "img", "iframe", "object", "embed", "source", "video", "audio"}
    assert not fetching & {tag for tag, _ in page.tags}
    assert not [a for tag, a in page.tags if tag == "script" and "src" in a]
    assert all(str(a["href"]).startswith("#") for _, a in page.tags if "href" in a)


def test_html_escapes_what_scripts_call_their_models() -> None:
    evil = make_record(EVIL, status="failed", reason="</td><img src=x onerror=alert(1)>", log="</pre><b>")
    page = Page(html.render(of(evil)))
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert EVIL in page.cells["Model"]


def test_html_keeps_measured_and_modelled_in_separate_cells() -> None:
    cells = Page(html.render(of(make_record()))).cells
    assert cells["Original ms"] == "0.409 measured"
    assert cells["Compiled ms"] == "0.042 modelled"


def test_html_shows_why_a_row_failed_or_was_expected_to() -> None:
    text = html.render(of(FAILED, EXPECTED))
    table = text[text.index('<table id="models"') : text.index("</table>")]
    assert "PCC 0.91 where 0.99 was asked" in table
    assert "ValueError: as its label says" in table
    assert "expected failure" in table


def test_html_chart_draws_the_two_kinds_differently() -> None:
    text = html.render(of(make_record(), make_record("linear", "cpu")))
    bars = re.findall(r'class="bar (measured|modelled)"', text[text.index('id="chart"') :])
    assert sorted(bars) == ["measured", "measured", "modelled", "modelled"]  # a legend and a bar each
    assert ".bar.modelled { fill: url(#hatch)" in text
    assert 'id="hatch"' in text


def test_html_links_each_row_to_its_details() -> None:
    page = Page(html.render(of(make_record(), FAILED)))
    links = [a["href"] for tag, a in page.tags if tag == "a"]
    details = [a["id"] for tag, a in page.tags if tag == "details" and "id" in a]
    assert (
        links
        == [f"#{name}" for name in details]
        == [f"#{data.page_name(record)}" for record in (make_record(), FAILED)]
    )


def test_html_follows_the_reader_s_colour_scheme() -> None:
    assert "@media (prefers-color-scheme: dark)" in html.render(of(make_record()))


def test_html_of_nothing_but_bad_files_still_says_so() -> None:
    text = html.render(Report((), (), (("box/dead.json", "is not JSON"),)))
    assert "1 file could not be read:" in text
    assert Page(text)._open == []


def test_doubtful_times_are_told_one_by_one_only_where_they_are_few():
    weak = Timing("eager", "measured", "cpu", (1, 2), verdict="too few", why="2 samples. Take at least 100")
    record = dataclasses.replace(make_record(), timings=(weak,))
    assert terminal.doubts([record]) == [
        f"  {record.job.workload.name} on {record.job.device}: "
        "the eager time is unreliable: 2 samples. Take at least 100."
    ]
    (line,) = terminal.doubts([record] * 11)
    assert line.startswith(
        "  11 measured times are unreliable (11 with too few samples). Measure longer (--duration 30)"
    )


@pytest.mark.parametrize("width", [80, 100, 118, 120, 121, 124, 160])
def test_a_grid_loses_no_word_at_any_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    titles = ["#", "ATen op", "Count", "Transfers", "Of all transfers", "Of the chip's time", "If converted"]
    cells = ["1", "aten._transformer_encoder_layer_fwd.default", "4", "2", "50.0 %", "3.3 %"]
    text = terminal.grid(titles, [[*cells, "6.94 µs faster, 2 transfers fewer"]])
    assert all(word in text.split() for cell in (*titles[1:], *cells[1:], "2 transfers fewer") for word in cell.split())
    assert all(len(line) <= width for line in text.splitlines())


def test_what_converting_would_cost_is_told_without_a_minus() -> None:
    assert _saves(2, 6940) == "6.94 µs faster, 2 transfers fewer"
    assert _saves(-1, -650) == "0.65 µs slower, 1 transfer more"
    assert _saves(0, 163) == "0.163 µs faster, no change in transfers"
