"""Claims about what a person sees: tables that keep what matters, words that are true, errors that say what to do."""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_store import make_record

import proveout.__main__ as program
from proveout import __version__, cli
from proveout.app.explorer_compare import first_pair
from proveout.capture.running import explain
from proveout.capture.scripts import resolve
from proveout.cli import output
from proveout.columns.table import row
from proveout.engine.prediction import with_host
from proveout.errors import UsageError
from proveout.report.cause.text import table as figures
from proveout.report.drawing import graph as drawing
from proveout.report.tables import terminal
from proveout.store import Store
from proveout.types import GraphNode, Record, Timing


def dry_run(record: Record) -> Record:
    return dataclasses.replace(record, job=dataclasses.replace(record.job, do=("compile",)))


@pytest.mark.parametrize("width", [80, 120])
def test_a_narrow_table_tells_once_what_all_rows_share_and_keeps_pcc_and_the_host(width: int) -> None:
    text = terminal.table([row(make_record("one")), row(make_record("two"))], width)
    assert text.count("sim:n150 bfloat16 fast") == text.count("modelled)") - ("Calls/s (modelled)" in text) == 1
    head = next(line for line in text.splitlines() if "Model" in line)
    assert "PCC" in head
    assert "Ops remain" in head


def test_times_of_two_kinds_keep_their_badges() -> None:
    modelled = make_record("one")
    measured = dataclasses.replace(
        modelled, timings=tuple(dataclasses.replace(t, kind="measured") for t in modelled.timings)
    )
    text = terminal.table([row(modelled), row(measured)], 80)
    assert {"(modelled)", "(measured)"} <= set(text.split())


def test_a_dry_run_is_compiled_and_not_passed_in_sql(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(make_record("ran"))
    store.write(dry_run(make_record("planned")))
    rows = store.query("select model, status from records order by model")
    assert [tuple(r) for r in rows[1]] == [("planned", "compiled"), ("ran", "passed")]


@pytest.mark.parametrize(("samples", "known"), [((5,), False), ((5, 9, 7, 6, 8, 5), True)])
def test_a_host_part_that_was_timed_once_has_no_interval(samples: tuple[int, ...], known: bool) -> None:
    device = Timing("device", "modelled", "sim:n150", (100,), (), (90.0, 120.0), "predicted")
    host = Timing("host", "measured", "cpu", samples, (), None, "too few", "few samples")
    whole = with_host(device, host)
    assert whole.interval_ns == ((95.0, 129.0) if known else None)


def test_the_version_and_the_short_help_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"proveout {__version__}\n"
    assert cli.main(["report", "-h"]) == 0
    assert "Show all results" in capsys.readouterr().out


def test_ctrl_c_while_the_command_line_loads_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    true_import = builtins.__import__

    def interrupted(name: str, *rest: Any) -> Any:
        if name == "proveout.cli":
            raise KeyboardInterrupt
        return true_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    monkeypatch.setattr(sys, "argv", ["proveout"])
    with pytest.raises(SystemExit, match="130"):
        importlib.reload(program)
    assert capsys.readouterr().err == "proveout: error: interrupted before anything was done.\n"


def test_a_missing_choice_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "Choose from: list, print" in line


def test_a_binary_file_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes(b"\x00\x01\x02")
    with pytest.raises(UsageError, match=r"^model\.py is not (valid Python|a Python script): [^:]+$"):
        resolve([str(tmp_path / "model.py")], [], False)


def test_a_script_that_wants_arguments_is_told_how_to_get_them() -> None:
    told = explain(Path("net.py"), SystemExit(2), ran=False)
    assert told.endswith("Pass a script its arguments with --script-args '…'.")
    assert "--script-args" not in explain(Path("net.py"), SystemExit(3), ran=False)


def test_compare_starts_with_two_results_that_passed() -> None:
    def entry(model: str, status: str, created: str) -> Any:
        flat = SimpleNamespace(model=model, script_args="", status=status, did="check", created=created, load=None)
        return SimpleNamespace(row=flat)

    results = (("b", "failed", "4"), ("b", "passed", "3"), ("a", "passed", "2"), ("a", "passed", "1"))
    newest = [entry(*result) for result in results]
    assert first_pair(newest) == (newest[3], newest[2])


def test_wide_figures_go_below_their_row_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = figures(("share", "op", "module"), [("14 %", "ttnn.linear", "a.long.path.of.modules")], last=2)
    assert lines == ["  share", "      op  module", "  14 %", "      ttnn.linear  a.long.path.of.modules"]


def test_the_corpora_are_listed_a_line_a_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["models", "list", "--search-dir", "selftest"]) == 0
    head, *scripts = capsys.readouterr().out.splitlines()
    assert head == f"selftest ({len(scripts)} scripts)"
    assert max(map(len, scripts)) <= 80


def test_a_terminal_breaks_no_word_and_no_command(monkeypatch):
    """Sentences are wrapped between words, below their own indent; a command is to be copied, and a pipe has all."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    command = "  proveout tune net.py --device sim:n150 --pcc 0.99"
    said = f"  net: the eager time is unreliable: 12 samples. Take at least 100.\n{command}"
    monkeypatch.setattr(sys, "stderr", Terminal())
    output.note(said)
    lines = sys.stderr.getvalue().splitlines()
    assert " ".join(lines[:-1]).split() == said.partition("\n")[0].split()
    assert all(len(line) <= 40 for line in lines[:-1])
    assert lines[1].startswith("    ")
    assert lines[-1] == command
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    output.note(said)
    assert sys.stderr.getvalue() == said + "\n"


def test_times_that_no_column_shows_are_not_doubted():
    slow = Timing("simulation", "measured", "sim:n150", (1, 2), verdict="too few", why="2 samples. Take at least 100")
    assert terminal.doubts([dataclasses.replace(make_record(), timings=(slow,))]) == []


def test_text_stays_in_its_box() -> None:
    """A drawn label and its note end before the box does, at the widths of a monospaced font."""
    long = "ttnn.transformer.split_query_key_value_and_split_heads"
    svg = drawing.draw([GraphNode("split", long, "device", note="bf16[4,3,64,32] tile l1 height-sharded")])
    texts = re.findall(r'<text x="(\d+)" y="\d+"( class="note")?[^>]*>([^<]*…)</text>', svg)
    assert len(texts) == 2
    left = int(re.search(r'<g [^>]*id="split"[^>]*>.*?<rect x="(\d+)"', svg, re.DOTALL)[1])
    for x, small, text in texts:
        assert int(x) + len(text) * (6.3 if small else 7.2) <= left + drawing.WIDTH
