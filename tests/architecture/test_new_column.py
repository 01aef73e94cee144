"""A report column is one field of one class: SQL, every format of a report and the explorer's board show it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

import pytest
from additions import COLUMN
from measures import SOURCE
from test_additions import put, python

from proveout.columns.table import COLUMNS, Row
from record_stores import some

pytest.importorskip("streamlit")

PROGRAM = """
import json, os, sys
import proveout.columns
proveout.columns.__path__.insert(0, sys.argv[1] + "/columns")
from streamlit.testing.v1 import AppTest
from proveout.report.tables import data, html, markdown, rows, terminal
from proveout.store import Store

store = Store(sys.argv[2])
report = rows.load(store)
os.environ["PROVEOUT_CACHE"] = sys.argv[2]
app = AppTest.from_string("from proveout.app import explorer_models; explorer_models.page()", default_timeout=60).run()
assert not app.exception, app.exception
print(json.dumps({
    "sql": store.query("select seeds from records")[1],
    "terminal": terminal.render(report, 250),
    "narrow": terminal.render(report, 60),
    "markdown": markdown.render(report),
    "page": markdown.render_model(report.records[0], report.rows[0]),
    "csv": data.render_csv(report),
    "json": json.loads(data.render_json(report))["records"],
    "html": html.render(report),
    "board": [list(map(str, frame.value["Seeds"])) for frame in app.dataframe if "Model" in frame.value],
}))
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every place, in a process whose row has one field more, as a person would type it."""
    folder = tmp_path_factory.mktemp("column")
    ((file, new),) = COLUMN.items()
    before = (SOURCE / file).read_text(encoding="utf-8")
    head, first, rest = before.partition("    key: str = column(")
    put(folder, {file: head + new + first + rest})
    return json.loads(python(PROGRAM, folder, some(folder / "store")))


@pytest.fixture(scope="module")
def seeds(shown: dict[str, Any]) -> list[int]:
    """What the Records hold, by SQL."""
    found = [value for (value,) in shown["sql"]]
    assert len(found) == 5
    assert set(found) == {4200, 4203}, "a Record's timings, counted from 4200"
    return found


def test_a_column_is_one_field_of_one_file() -> None:
    assert len(COLUMN) == 1


def test_the_type_of_a_column_is_that_of_its_field() -> None:
    types = {column.name: column.sql for column in COLUMNS}
    assert [types[name] for name in ("model", "graphs", "pcc", "fits")] == ["varchar", "bigint", "double", "boolean"]
    assert list(types) == [field.name for field in dataclasses.fields(Row)]


@pytest.mark.parametrize(("place", "heading"), [("terminal", "Seeds"), ("markdown", "Seeds sown"), ("html", "Seeds")])
def test_the_tables_of_models_show_it(place: str, heading: str, shown: dict[str, Any], seeds: list[int]) -> None:
    assert heading in shown[place]
    assert [value for value in seeds if f"{value:,}" not in shown[place]] == []


@pytest.mark.parametrize("place", ["markdown", "html"])
def test_it_is_explained(place: str, shown: dict[str, Any]) -> None:
    assert "How many seeds a test has sown." in shown[place]


def test_a_narrow_terminal_says_that_it_is_left_out(shown: dict[str, Any]) -> None:
    assert "Seeds" in shown["narrow"].partition("Hidden (terminal too narrow):")[2].splitlines()[0]


def test_a_models_page_has_it(shown: dict[str, Any], seeds: list[int]) -> None:
    assert "Seeds sown" in shown["page"]
    assert f"{seeds[0]:,}" in shown["page"]


def test_csv_and_json_have_it(shown: dict[str, Any], seeds: list[int]) -> None:
    cells = [row["seeds"] for row in csv.DictReader(io.StringIO(shown["csv"])) if row["status"] != "unreadable"]
    assert list(map(int, cells)) == seeds
    assert [record["seeds"] for record in shown["json"]] == seeds


def test_the_explorers_board_has_it(shown: dict[str, Any], seeds: list[int]) -> None:
    (cells,) = shown["board"]
    assert cells
    assert set(map(int, cells)) <= set(seeds)
