"""`proveout query` reads the tables of a store and nothing else, and comes back."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from proveout import store as store_module
from proveout.errors import UsageError
from proveout.store import query


@pytest.fixture
def outside(tmp_path):
    """A folder with a file that is nobody's business."""
    (tmp_path / "secret.csv").write_text("password\nhunter2\n")
    return tmp_path


@pytest.mark.parametrize(
    "sql",
    [
        "copy records to '{0}/out.csv'",
        "copy (select 1) to '{0}/secret.csv'",
        "export database '{0}/out'",
        "attach '{0}/out.db' as other",
        "install httpfs",
        "load httpfs",
        "create table t as select 1",
        "drop table records",
        "insert into records (key) values ('x')",
        "update records set model = 'x'",
        "delete from records",
        "set enable_external_access = true",
        "pragma enable_profiling",
        "call enable_logging()",
        "import database '{0}'",
        "select 1; copy records to '{0}/out.csv'",
        "explain analyze copy records to '{0}/out.csv'",
        "select * from read_csv('{0}/secret.csv')",
        "select * from '{0}/secret.csv'",
        "select * from read_text('{0}/secret.csv')",
        "select * from read_blob('{0}/*')",
        "select * from glob('{0}/*')",
        "select * from sniff_csv('{0}/secret.csv')",
        "select * from query('copy records to ''{0}/out.csv''')",
        "select * from read_parquet('https://example.org/x.parquet')",
        "select * from read_json_objects('{0}/secret.csv')",
        "from query_table('{0}/secret.csv')",
        "pivot (from '{0}/secret.csv') on password using count(*)",
        "summarize from read_text('/proc/self/environ')",
        "explain analyze attach '{0}/out.db'",
        "from duckdb_secrets()",
        "from enable_profiling()",
        "select getenv('HOME')",
        "update extensions",
        "reset memory_limit",
        "select '\udcff'",
        "select " + "(" * 20_000,
        "select " + "(1," * 3_000,
        "select " + "- " * 5_000,
        "select " + "1" * 50_000,
    ],
)
def test_a_query_neither_reads_nor_writes_outside(outside, sql):
    with pytest.raises(UsageError):
        query([], sql.replace("{0}", str(outside)))
    assert [p.name for p in outside.iterdir()] == ["secret.csv"]
    assert (outside / "secret.csv").read_text() == "password\nhunter2\n"


def test_a_query_does_not_see_the_programs_own_variables():
    import pandas

    hidden = pandas.DataFrame({"a": [1]})
    with pytest.raises(UsageError, match="hidden"):
        query([], "select * from hidden")
    assert len(hidden) == 1


@pytest.mark.parametrize("sql", ["", "   ", "-- nothing", ";"])
def test_an_empty_query_is_told(sql):
    with pytest.raises(UsageError, match=r"the query is empty\. Tables: records, ops"):
        query([], sql)


@pytest.mark.parametrize(
    "sql",
    ["describe records", "show tables", "from records", "explain select 1", "summarize records", "pivot ops on state"],
)
def test_other_ways_to_read_still_work(sql):
    query([], sql)


def test_an_answer_that_would_fill_the_memory_is_refused_on_the_way(monkeypatch):
    monkeypatch.setattr(store_module, "QUERY_LIMIT_SIZE", 1_000_000)
    with pytest.raises(UsageError, match="more than 1 MB of text"):
        query([], "select repeat('x', 10000) from range(1000000)")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select list_aggregate(range(1000000000), 'sum')", "took more than 2 s|more than 4 GB"),
        ("select repeat('x', 2000000000)", "took more than 2 s|more than 4 GB"),
    ],
    ids=["a list", "a text"],
)
def test_a_function_that_cannot_be_interrupted_is_ended(monkeypatch, sql, said):
    """A list of 10^9 numbers took 18 GB and 46 s."""
    monkeypatch.setattr(store_module, "QUERY_LIMIT_S", 2.0)
    monkeypatch.setattr(store_module, "QUERY_LIMIT_BYTES", 1 << 30)
    with pytest.raises(UsageError, match=said):
        query([], sql)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_query_comes_back(monkeypatch):
    monkeypatch.setattr(store_module, "QUERY_LIMIT_S", 0.5)
    monkeypatch.setattr(store_module, "QUERY_LIMIT_ROWS", 1000)
    start = time.monotonic()
    with pytest.raises(UsageError, match=r"took more than 0.5 s"):
        query([], "select count(*) from range(100000000000) a, range(1000) b")
    with pytest.raises(UsageError, match=r"more than 1,000 rows"):
        query([], "select * from range(100000000000)")
    assert time.monotonic() - start < 60  # either would take days
