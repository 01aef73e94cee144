"""Names, lists, settings, folders and disks that nobody thinks of: each gets a sentence, and harms nothing else."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from proveout import cli
from proveout.bringup.graph import GraphOp
from proveout.bringup.graph_page import _document
from proveout.cli.output import emit, note
from proveout.cli.progress import Progress
from proveout.columns.table import row
from proveout.errors import UsageError
from proveout.folders import file_name
from proveout.measure import runs
from proveout.report.cells import cell, render
from proveout.sweep import Result


@pytest.mark.parametrize("text", ["=1+1", "\n=1", "＝1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_cell_begins_a_formula(text):
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-1.5", "+2", "-inf", -3, 0.5, None, "aten.add", "a=b", "-"])
def test_numbers_and_plain_words_stay_as_they_are(value):
    assert cell(value) == value


@pytest.mark.parametrize("door", [emit, note])
def test_a_strangers_text_commands_no_terminal(door, capsys):
    door("clear \x1b[2J title \x1b]0;x\x07 bidi \u202e C1 \x9b red \x1b[31m\ttab\nline")
    streams = capsys.readouterr()
    words = r"clear \u001b[2J title \u001b]0;x\u0007 bidi \u202e C1 \u009b red \u001b[31m"
    assert streams.out + streams.err == f"{words}\ttab\nline\n"


def test_a_name_with_a_line_break_tells_of_no_other_model(capsys):
    with Progress(1) as progress:
        progress.step("a", "a\n[2/2] b on sim: passed")
    assert capsys.readouterr().err.count("\n") == 1


def test_the_reason_of_a_single_failure_is_in_stderr_where_the_table_goes_elsewhere(capsys):
    """MLAgility's users read it there: its own test of a parameter that a script does not take."""
    from test_store import make_record

    record = make_record(status="failed", reason="error: unrecognized argument --x")
    with Progress(1) as progress:
        progress.done("a", Result(Path("record.json"), row(record), False), 1.0)
    assert "error: unrecognized argument --x" in capsys.readouterr().err


def test_a_models_name_cannot_be_a_formula_in_any_csv(tmp_path):
    from test_store import make_record

    from proveout.report.tables.data import render_csv
    from proveout.report.tables.rows import Report
    from proveout.store import Store

    Store(tmp_path).write(make_record("=HYPERLINK(1)"))
    assert cli.main(["report", "--cache-dir", str(tmp_path), "-o", str(tmp_path / "out")]) == 0
    text = next((tmp_path / "out").rglob("*.csv")).read_text()
    assert "'=HYPERLINK(1)" in text
    assert not re.search(r"(^|,)=HYPERLINK", text, re.MULTILINE)
    assert render([["=a"], [1]]) == "'=a\n1\n"
    assert callable(render_csv)
    assert Report


def test_a_module_that_is_named_like_markup_leaves_the_page_whole():
    text = str(_document([GraphOp(0, 0, "a", "aten.x", "<!--<script>", "host", "</script>")], {}))
    assert "<" not in text
    assert "<!--<script>" in json.loads(text)["texts"]


def test_one_damaged_folder_does_not_keep_the_others(tmp_path, monkeypatch, capsys):
    whole, damaged = tmp_path / f"{runs.PREFIX}whole", tmp_path / f"{runs.PREFIX}damaged"
    for folder, text in ((damaged, '{"plan": [3'), (whole, '{"plan": [], "controller": [1, 1]}')):
        folder.mkdir()
        (folder / "run.json").write_text(text)
    monkeypatch.setattr(runs, "_roots", lambda: [tmp_path])
    assert cli.main(["recover", "-o", str(tmp_path / "out"), "--json", "--cache-dir", str(tmp_path / "cache")]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [entry["folder"] for entry in told["recovered"]] == [str(whole)]
    assert [entry["folder"] for entry in told["damaged"]] == [str(damaged)]
    assert damaged.exists()


@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_folder_is_told(tmp_path, seed):
    import random

    from mutate import damaged

    folder = tmp_path / f"{runs.PREFIX}x"
    folder.mkdir()
    plan = {"plan": [{"configuration": {"model": "m"}, "columns": ["starts"], "callers": [1]}], "controller": [1, 1]}
    (folder / "run.json").write_bytes(damaged(json.dumps(plan).encode(), random.Random(seed)))
    with pytest.raises(UsageError, match=r"is damaged \("):
        runs.recover(folder)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["benchmark", "x" * 300 + ".py"], "too long or too odd"),
        (["benchmark", "{tmp}/binary.txt"], "is not a text file"),
        (["benchmark", "{tmp}/model.py", "--set", "pcc=" + "[" * 100_000], "nested too deeply"),
    ],
    ids=["long name", "binary list", "nested setting"],
)
def test_odd_words_get_a_sentence(tmp_path, capsys, words, told):
    (tmp_path / "binary.txt").write_bytes(bytes(range(128, 256)))
    (tmp_path / "model.py").write_text("")
    assert cli.main([w.replace("{tmp}", str(tmp_path)) for w in words]) == 2
    assert told in capsys.readouterr().err


def test_a_long_name_of_a_model_becomes_a_file(tmp_path):
    from test_store import make_record

    from proveout.report.tables.data import page_name

    (tmp_path / page_name(make_record("long" * 200))).touch()


@pytest.mark.parametrize("data", ["data:image/png;base64,%%%", "x", "data:,AAAA", "🙂", "data:,ä", 7, {}, b"data:,"])
def test_a_bad_drawing_is_no_image(data):
    from proveout.app.pictures import from_data_url

    with pytest.raises(UsageError, match="image"):
        from_data_url(data)


def test_a_full_disk_is_told_in_our_words(monkeypatch, capsys):
    from proveout.cli.verbs import devices

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "results.json")

    monkeypatch.setattr(devices, "verb", full)
    monkeypatch.setattr("proveout.cli._command", lambda *_: full)
    assert cli.main(["devices"]) == 3
    said = capsys.readouterr().err
    assert "No space left on device (results.json). Free some space and run it again." in said


def test_what_sqlite_says_of_a_full_disk_is_the_systems(tmp_path):
    import sqlite3

    from proveout.report.visualizer.database import _told_as_the_systems

    def fill():
        with _told_as_the_systems(tmp_path / "db"), sqlite3.connect(tmp_path / "db") as connection:
            connection.execute("pragma max_page_count = 1")
            connection.execute("create table t (a)")

    with pytest.raises(OSError, match="No space left on device"):
        fill()


@pytest.mark.parametrize("error", [TypeError("no such thing\nat all"), OSError(errno.ECHILD, "No child"), KeyError(3)])
def test_a_fault_of_ours_is_a_sentence_with_its_traceback_in_a_file(monkeypatch, capsys, error):
    """Whatever a command runs into, also when it goes on after a kill: no traceback is its last word."""

    def broken(*args, **kwargs):
        raise error

    monkeypatch.setattr("proveout.cli._command", lambda *_: broken)
    assert cli.main(["benchmark"]) == 70
    said = capsys.readouterr().err
    assert f"Proveout itself failed ({type(error).__name__}: " in said
    assert "What was already written is kept." in said
    assert "Traceback" not in said
    file = re.search(r"The details are in (\S+): please report", said).group(1)
    assert "in broken" in Path(file).read_text()
    os.unlink(file)


def test_a_full_disk_while_samples_are_written_has_no_words_of_duckdb(tmp_path):
    import duckdb

    from proveout.store import _of_the_disk

    error = duckdb.IOException('IO Error: Could not write file "x.parquet": No space left on device')
    assert _of_the_disk(error).errno == errno.ENOSPC
    assert _of_the_disk(error).strerror == "No space left on device"


@pytest.mark.slow
def test_the_app_answers_no_page_whose_name_only_points_here(tmp_path):
    from proveout.cli.verbs.app import serving

    def handshake(address, host):
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
            link.sendall(
                f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: http://{host}:{port}\r\n"
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
            )
            return int(link.recv(64).split()[1])

    with serving(tmp_path) as address:
        assert handshake(address, "127.0.0.1") == 101
        assert handshake(address, "localhost") == 101
        assert handshake(address, "evil.example") == 400
        for path in ("/", "/models", "/media/x.csv", "/_stcore/health", "/_stcore/host-config"):
            request = urllib.request.Request(f"{address}{path}", headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError, match="HTTP Error 400"):
                urllib.request.urlopen(request, timeout=10)


@pytest.mark.parametrize("letter", ["n", "字", "🔥", "é", "<"])
def test_a_name_of_any_length_is_a_file_and_still_its_own(tmp_path, letter):
    names = [file_name(letter * 500 + end) for end in ("a", "b")]
    for name in names:
        (tmp_path / f".{name}-0123456789abcdef.json.12345-01234567.tmp").touch()
    assert len(set(names)) == 2
    assert file_name("ResNet-18::Net") == "ResNet-18-Net"
