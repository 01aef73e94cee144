"""Records on disk: one JSON file each, its raw samples beside it as Parquet, and DuckDB to ask them all."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import errno
import json
import multiprocessing
import os
import platform
import re
import secrets
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from proveout.coding import from_json, read_json, to_json
from proveout.columns.parts import PARTS
from proveout.columns.table import COLUMNS, row
from proveout.errors import EnvironmentFault, UsageError
from proveout.folders import default_folder
from proveout.isolate import confine
from proveout.types import SCHEMA, Job, Record, Timing

SAMPLES_IN_JSON = 1000
"""Samples of one timing that its JSON file keeps; the Parquet file beside it always holds all."""

READ = (1, SCHEMA)
"""Schemas that this version reads; it writes the last."""

BadFile = tuple[Path, str]


def machine() -> str:
    """This machine's name, fit for a folder."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", platform.node()).strip("-") or "machine"


class Store:
    """A folder of Records, `<folder>/<machine>/<job key>.json`. Writers need no lock; merging is copying."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder).expanduser() if folder else default_folder()

    def path(self, job: Job) -> Path:
        return self.folder / machine() / f"{job.key}.json"

    def check_writable(self) -> None:
        """Raise EnvironmentFault now rather than after an hour's work."""
        probe = self.folder / machine() / f".{secrets.token_hex(8)}.tmp"
        with self._faults():
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()

    def write(self, record: Record) -> Path:
        """Keep one Record: its samples first, its JSON last, each complete or not there at all."""
        return self.write_at(self.path(record.job), record)

    def write_at(self, path: Path, record: Record) -> Path:
        """The same under a name that another machine or version gave it."""
        kept = [dataclasses.replace(t, samples_ns=t.samples_ns[:SAMPLES_IN_JSON]) for t in record.timings]
        document = to_json(dataclasses.replace(record, timings=tuple(kept), schema=SCHEMA))
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        with self._faults():
            if record.timings:
                _write_samples(path.with_suffix(".parquet"), record.timings)
            else:
                path.with_suffix(".parquet").unlink(missing_ok=True)
            write_text(path, text + "\n")
        return path

    def get(self, job: Job) -> Record | None:
        """What this machine has already learnt about a Job; None when nothing readable is there."""
        try:
            return read_record(self.path(job))
        except (OSError, _BadRecord):
            return None

    def found_anywhere(self, job: Job) -> Path:
        """Where a Record of a Job lies, of this machine or else of any; this machine's place where there is none."""
        own = self.path(job)
        return own if own.exists() else min(self.folder.glob(f"*/{job.key}.json"), default=own)

    def remove(self, job: Job) -> None:
        """Forget one Record; already gone is fine."""
        with self._faults():
            for suffix in (".json", ".parquet"):
                self.path(job).with_suffix(suffix).unlink(missing_ok=True)

    def records(self) -> tuple[list[Record], list[BadFile]]:
        """All Records in a fixed order, and the files that could not be read, each with the reason."""
        good, bad = [], []
        for path in sorted(self.folder.glob("*/*.json")):
            try:
                good.append(on_machine(read_record(path), path.parent.name))
            except OSError as error:
                bad.append((path, error.strerror or str(error)))
            except _BadRecord as error:
                bad.append((path, str(error)))
        return sorted(good, key=_order), bad

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Ask the readable Records in SQL; see `TABLES`."""
        return query(self.records()[0], sql)

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = error.strerror or str(error)
            raise EnvironmentFault(
                f"cannot write to the cache {self.folder}: {why}. Choose another with --cache-dir DIR."
            ) from error


# ---------------------------------------------------------------------------------------------- files


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that becomes `path` at the end, or is gone when anything fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none of it."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _write_samples(path: Path, timings: Sequence[Timing]) -> None:
    import duckdb

    samples = [(t.what, t.kind, t.device, ns) for t in timings for ns in t.samples_ns]
    with replacing(path) as temporary, duckdb.connect() as connection:
        quoted = str(temporary).replace("'", "''")
        try:
            connection.execute(
                "create table samples as select unnest(?::varchar[]) as what, unnest(?::varchar[]) as kind,"
                " unnest(?::varchar[]) as device, unnest(?::bigint[]) as sample_ns",
                [[sample[column] for sample in samples] for column in range(4)],
            )
            connection.execute(f"copy samples to '{quoted}' (format parquet, use_tmp_file false)")
        except duckdb.IOException as error:
            raise _of_the_disk(error) from error


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT)


def _of_the_disk(error: BaseException) -> OSError:
    """What the system said to DuckDB, without DuckDB's words around it."""
    code = next((code for code in _DISK if os.strerror(code) in str(error)), errno.EIO)
    return OSError(code, os.strerror(code))


def _read_samples(path: Path) -> dict[tuple[str, str, str], tuple[int, ...]]:
    import duckdb

    quoted = str(path).replace("'", "''")
    with duckdb.connect() as connection:
        try:
            rows = connection.execute(f"select what, kind, device, sample_ns from '{quoted}'").fetchall()
        except duckdb.Error:
            return {}
    samples: dict[tuple[str, str, str], list[int]] = {}
    for what, kind, device, ns in rows:
        samples.setdefault((what, kind, device), []).append(ns)
    return {name: tuple(values) for name, values in samples.items()}


# -------------------------------------------------------------------------------------------- reading


class _BadRecord(ValueError):
    """A file that is not a Record this version can read."""


def read_record(path: Path) -> Record:
    """One Record with all its samples; ValueError says why a file is none."""
    try:
        data = read_json(path)
    except ValueError as error:
        raise _BadRecord(f"is not JSON that a store keeps: {_first_line(error)}") from None
    if not isinstance(data, dict):
        raise _BadRecord(f"holds a JSON {type(data).__name__}, not a Record")
    if data.get("schema") not in READ:
        known = " and ".join(map(str, READ))
        raise _BadRecord(f"has schema {data.get('schema')}; this version reads {known}")
    try:
        record = from_json(Record, data)
        record = record if record.schema == SCHEMA else _from_schema_1(record)
    except ValueError as error:
        raise _BadRecord(f"is not a Record: {error}") from None
    return _with_all_samples(record, path.with_suffix(".parquet"))


def _from_schema_1(record: Record) -> Record:
    """Predictions had their interval among the conditions; nobody had judged what was measured."""

    def timing(old: Timing) -> Timing:
        known = dict(old.conditions)
        if old.kind != "modelled":
            return old
        bounds = (float(known["low_ns"]), float(known["high_ns"])) if {"low_ns", "high_ns"} <= known.keys() else None
        others = tuple((name, value) for name, value in old.conditions if name not in ("low_ns", "high_ns"))
        return dataclasses.replace(old, conditions=others, interval_ns=bounds, verdict="predicted")

    return dataclasses.replace(record, timings=tuple(map(timing, record.timings)))


def _with_all_samples(record: Record, parquet: Path) -> Record:
    """The Record with the samples back that its JSON was too small to keep."""
    if not any(len(t.samples_ns) == SAMPLES_IN_JSON for t in record.timings) or not parquet.exists():
        return record
    samples = _read_samples(parquet)
    whole = [
        dataclasses.replace(t, samples_ns=samples.get((t.what, t.kind, t.device), t.samples_ns)) for t in record.timings
    ]
    return dataclasses.replace(record, timings=tuple(whole))


def on_machine(record: Record, name: str) -> Record:
    """A Record that says where it was made, if only by the folder it lies in."""
    if dict(record.environment).get("machine"):
        return record
    return dataclasses.replace(record, environment=(*record.environment, ("machine", name)))


def _order(record: Record) -> tuple[str, ...]:
    flat = row(record)
    return (flat.model, flat.device, flat.precision, flat.did, flat.script, flat.machine, flat.key)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# --------------------------------------------------------------------------------------------- tables


TABLES: dict[str, dict[str, str]] = {
    "records": {column.name: column.sql for column in COLUMNS},
    **{name: {"key": "varchar", "model": "varchar", **table.columns} for name, table in PARTS.items()},
}
"""The tables that `query` offers: each column with its type."""


Answer = tuple[list[str], list[tuple[Any, ...]]]


def query(records: Sequence[Record], sql: str) -> Answer:
    """The answer's columns and rows; a mistake in the SQL is a UsageError that says how to list the columns.

    It only reads, and only the tables: no file, no network, no extension, no setting, and not for ever. DuckDB works in
    a child, because some of its functions look neither at an interrupt nor at its own limit of memory."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=_in_a_child, args=(theirs, os.getpid(), records, sql), daemon=True
    )
    with warnings.catch_warnings():  # of a fork beside other threads: the child uses nothing that they may hold
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    theirs.close()
    try:
        answer = _received(ours, FILL_LIMIT_S, "the tables took more than {:g} s to fill. Thin out the Records.")
        if answer is None:  # the tables are filled, and the time begins
            answer = _received(ours, QUERY_LIMIT_S, "the query took more than {:g} s. Ask for less.")
    except EOFError as error:
        raise UsageError(TOO_MUCH_MEMORY) from error
    finally:
        ours.close()
        child.kill()
        child.join()
    if isinstance(answer, UsageError):
        raise answer
    columns, rows = answer
    return columns, rows


def _received(child: Connection, limit_s: float, too_late: str) -> Any:
    if not child.poll(limit_s):
        raise UsageError(too_late.format(limit_s))
    return child.recv()


def _in_a_child(parent: Connection, parent_pid: int, records: Sequence[Record], sql: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to answer
    confine(parent_pid, _data_bytes() + QUERY_LIMIT_BYTES)
    try:
        parent.send(_answer(records, sql, lambda: parent.send(None)))
    except UsageError as error:
        parent.send(error)
    except MemoryError:
        parent.send(UsageError(TOO_MUCH_MEMORY))


def _data_bytes() -> int:
    """What this process has already of the memory that RLIMIT_DATA counts."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmData:")).split()[1])
    return 0


def _answer(records: Sequence[Record], sql: str, on_filled: Callable[[], None]) -> Answer:
    import duckdb

    _check_query(sql)
    with duckdb.connect(config=_CLOSED) as connection:
        for table, columns in TABLES.items():
            declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            connection.execute(f"create table {table} ({declared})")
            if _names(table, sql):
                _fill(connection, table, records)
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        on_filled()
        try:
            answer = connection.execute(sql)
            names = [name for name, *_ in answer.description or ()]
            rows = _fetched(answer) if names else []
        except duckdb.PermissionException as error:
            raise UsageError("a query reads the tables and nothing else: no files, no extensions.") from error
        except duckdb.OutOfMemoryException as error:
            raise UsageError(TOO_MUCH_MEMORY) from error
        except duckdb.Error as error:
            raise _query_error(error, sql) from error
    return names, rows


def _fetched(answer: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer, which comes in pieces: what is too much is refused before it fills the memory."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    while piece := answer.fetchmany(100):
        rows += piece
        size += sum(len(cell) for row in piece for cell in row if isinstance(cell, str | bytes | list | dict))
        if len(rows) > QUERY_LIMIT_ROWS:
            raise UsageError(f"the query gives more than {QUERY_LIMIT_ROWS:,} rows. Add a limit, or ask for less.")
        if size > QUERY_LIMIT_SIZE:
            raise UsageError(f"the query gives more than {QUERY_LIMIT_SIZE // 10**6} MB of text. Ask for less.")
    return rows


FILL_LIMIT_S = 120.0
QUERY_LIMIT_S = 30.0
QUERY_LIMIT_BYTES = 4 << 30
TOO_MUCH_MEMORY = f"the query needs more than {QUERY_LIMIT_BYTES >> 30} GB of memory. Ask for less."
QUERY_LIMIT_ROWS = 1_000_000
QUERY_LIMIT_LENGTH, QUERY_LIMIT_SIGNS = 20_000, 200
_SIGNS = re.compile(rf"(?:[^\w\s]\s*){{{QUERY_LIMIT_SIGNS},}}")
"""DuckDB's parser takes time and memory by the square of the brackets and signs in a row, and cannot be interrupted:
3,000 brackets are half a minute, 20,000 tens of gigabytes."""
QUERY_LIMIT_SIZE = 256_000_000
"""Characters and items of all cells."""
_CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "memory_limit": "2GB",
}
"""DuckDB as `query` opens it; what is outside is shut off once the tables are filled."""
_READS = frozenset({"SELECT", "EXPLAIN", "MULTI"})
"""The kinds of statements that only read; MULTI is what DuckDB makes of a pivot."""


def _check_query(sql: str) -> None:
    import duckdb

    depth = accumulate({"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(sign, 0) for sign in sql)
    if len(sql) > QUERY_LIMIT_LENGTH or max(depth, default=0) > QUERY_LIMIT_SIGNS or _SIGNS.search(sql):
        limits = f"{QUERY_LIMIT_LENGTH:,} characters, {QUERY_LIMIT_SIGNS} brackets in one another or signs in a row"
        raise UsageError(f"the query is too long or too deep: at most {limits} are read. Write less.")
    try:
        sql.encode()
        kinds = [_kind(statement) for statement in duckdb.extract_statements(sql)]
    except UnicodeEncodeError as error:
        raise UsageError("the query has bytes that are no text. Write it in UTF-8.") from error
    except duckdb.Error as error:
        raise _query_error(error, sql) from error
    if not kinds:
        raise UsageError(f"the query is empty. {_what_there_is()}")
    strange = [kind for kind in kinds if kind not in _READS]
    if strange or len(kinds) > 1:
        what = f"{strange[0].lower()} changes something" if strange else f"these are {len(kinds)} queries"
        raise UsageError(f"{what}; give one query that reads, such as: select model, status from records")


def _kind(statement: Any) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # a kind that DuckDB's own Python binding has no name for
        return "THAT STATEMENT"


def _query_error(error: Exception, sql: str) -> UsageError:
    """DuckDB's sentence without its class, the columns that are meant, and where all of them are listed."""
    asked = {name: columns for name, columns in TABLES.items() if _names(name, sql)}
    sentence = _first_line(error).partition(" Error: ")[2] or _first_line(error)
    unknown = _UNKNOWN.search(sentence)
    near = _similar(unknown["column"], unknown["table"], asked) if unknown else []
    hint = f" Similar: {', '.join(near)}." if near else ""
    return UsageError(f"{sentence.rstrip('.!')}.{hint} {_what_there_is(*list(asked)[:1])}")


_UNKNOWN = re.compile(r'column (?:named )?"(?P<column>[^"]+)"|Table with name (?P<table>\S+) does not exist')


def _similar(column: str | None, table: str | None, asked: dict[str, dict[str, str]]) -> list[str]:
    """Names like one that is not there: of the query's own tables, else of any."""
    if column is None:
        return difflib.get_close_matches(str(table), TABLES, n=1)
    own = list(dict.fromkeys(name for columns in asked.values() for name in columns))
    return difflib.get_close_matches(column, own, n=3) or [
        f"{name}.{near}" for name, columns in TABLES.items() for near in difflib.get_close_matches(column, columns, n=1)
    ]


def _what_there_is(table: str = "records") -> str:
    return f"Tables: {', '.join(TABLES)}. List a table's columns: proveout query 'describe {table}'"


def _names(table: str, sql: str) -> bool:
    return re.search(rf"\b{table}\b", sql, re.IGNORECASE) is not None


def _fill(connection: Any, table: str, records: Sequence[Record]) -> None:
    rows = (
        [
            {"key": record.job.key, "model": record.job.workload.name} | to_json(part)
            for record in records
            for part in PARTS[table].rows(record)
        ]
        if table in PARTS
        else list(map(row, records))
    )
    # One JSON text: row by row, and even column by column, DuckDB takes several times as long.
    values = [json.dumps(to_json(rows)), json.dumps([TABLES[table]])]
    connection.execute(f"insert into {table} select unnest(from_json(?::json, ?), recursive := true)", values)
