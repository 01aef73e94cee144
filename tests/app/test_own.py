"""One's own model in the app: what names no script is told, limits are shown and hold, and the whole way through."""

from __future__ import annotations

import time

import pytest

testing = pytest.importorskip("streamlit.testing.v1", reason="needs the extra `app`")

from proveout.app import data, own  # noqa: E402
from proveout.app.commands import Command, CommandLine  # noqa: E402

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(32, 64), nn.Linear(64, 10)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))

{before}
Net()(torch.randn(4, 32))
"""


@pytest.fixture
def page(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["main.py", "--cache-dir", str(tmp_path / "store")])
    return testing.AppTest.from_string("from proveout.app.own import page\npage()", default_timeout=60).run()


def script(tmp_path, before: str = ""):
    path = tmp_path / "mine.py"
    path.write_text(MODEL.format(before=before))
    return path


def named(page, path):
    next(t for t in page.text_input if t.label == "Path of the script").set_value(str(path))
    return page.run()


def click(page, label: str):
    next(b for b in page.button if b.label == label).click()
    page.run()
    return page


def finished(page, step: str, seconds: float = 240):
    """The page after a step's command has ended."""
    command = own._commands().get(page.session_state[f"own-{step}-id"])
    command.wait(seconds)
    assert not command.running
    return command, page.run()


def said(page) -> str:
    return " ".join(str(part.value) for part in [*page.warning, *page.error, *page.info, *page.caption])


def test_what_is_no_script_is_told_before_anything_runs(page, tmp_path):
    (tmp_path / "net.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    for path, sentence in (
        (tmp_path / "gone.py", "does not exist on this machine"),
        (tmp_path, "is a folder. Name one script in it. It holds net.py."),
        (tmp_path / "notes.txt", "notes.txt is not a Python script"),
    ):
        assert sentence in said(named(page, path))
        assert not [b for b in page.button if b.label == "Find models"]


def test_a_script_whose_sandbox_would_reach_the_results_is_told_before_anything_runs(page, tmp_path):
    """As one in the home folder, where the cache is."""
    named(page, script(tmp_path))
    assert "Move it into a folder of its own, or switch the sandbox off" in said(page)
    assert not page.code
    next(t for t in page.toggle if t.label == "Sandbox").set_value(False)
    page.run()
    assert page.code


def test_the_limits_are_on_shown_and_part_of_each_command(page, tmp_path):
    (tmp_path / "mine").mkdir()
    path = script(tmp_path / "mine")
    named(page, path)
    assert f"writes below {path.parent} only, has no network" in said(page)
    (line,) = [c.value for c in page.code]
    assert line.startswith(f"proveout discover {path} --sandbox --no-network --memory ")
    next(t for t in page.toggle if t.label == "Network").set_value(True)
    page.run()
    assert "--no-network" not in page.code[0].value
    assert "may use the network" in said(page)


def test_an_example_fills_the_path(page):
    click(page, "Example")
    assert "attention.py" in page.code[0].value


def test_an_uploaded_script_stays_while_other_things_are_looked_at(page):
    """The uploader forgets its file when it is not drawn: on another page, or behind the field for a path."""

    def way(name):
        page.button_group[0].set_value(name)
        page.run()

    way("Upload")
    page.file_uploader[0].set_value(("mine.py", MODEL.format(before="").encode(), "text/x-python"))
    page.run()
    (line,) = [c.value for c in page.code]
    assert "/uploads/mine.py" in line  # the explorer calls a script's folder its corpus
    way("Path")
    assert not page.code
    way("Upload")
    assert [c.value for c in page.code] == [line]
    assert "mine.py, uploaded before" in said(page)


@pytest.mark.slow
@pytest.mark.e2e
def test_a_script_goes_all_the_way_to_the_explorer(page, tmp_path):
    (tmp_path / "mine").mkdir()
    named(page, script(tmp_path / "mine"))
    next(n for n in page.number_input if n.label.startswith("Timed")).set_value(0.1)
    page.run()
    click(page, "Find models")
    _, page = finished(page, "find")
    assert page.dataframe[0].value["Class"].tolist() == ["Net"]
    click(page, "Compile, check and time")
    assert [b.label for b in page.button].count("Stop") <= 1
    command, page = finished(page, "prove")
    assert not page.exception
    assert not page.error, command.log()
    board = data.board(tmp_path / "store")
    (entry,) = board.entries
    assert entry.row.status == "passed"
    assert data.recorded(board, entry), "the explorer has its Programs, though the sandbox kept nothing else"
    assert "--sandbox" in command.line.words


@pytest.mark.slow
@pytest.mark.e2e
def test_a_script_that_breaks_out_is_told_and_nothing_is_written(page, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (tmp_path / "mine").mkdir()
    before = f"open({str(outside / 'taken')!r}, 'w').write('x')"
    named(page, script(tmp_path / "mine", before))
    click(page, "Find models")
    _, page = finished(page, "find")
    assert "PermissionError" in said(page) or "Read-only" in said(page)
    assert not list(outside.iterdir())


def test_stop_ends_a_command_and_a_bad_one_is_told_in_a_sentence(tmp_path):
    line = CommandLine(("discover", str(script(tmp_path, "import time; time.sleep(300)")), "--json"), str(tmp_path), 60)
    slow = Command(line)
    time.sleep(0.5)
    slow.stop()
    slow.wait(20)
    assert not slow.running
    assert slow.error() == ""
    bad = Command(CommandLine(("discover", "gone.py", "--json"), str(tmp_path), 60))
    bad.wait(60)
    assert "gone.py" in bad.error()


def test_a_script_with_a_syntax_error_is_told_by_its_name_and_a_reload_finds_the_run_again(page, tmp_path):
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "mine.py"
    path.write_text("model = torch.nn.Linear(4, 4\n")
    named(page, path)
    next(n for n in page.number_input if n.label.startswith("Time limit")).set_value(77)
    page.run()
    click(page, "Find models")
    _, page = finished(page, "find")
    (error,) = [e.value for e in page.error]
    assert error.startswith("mine.py:1 is not valid Python: '(' was never closed")
    again = testing.AppTest.from_string("from proveout.app.own import page\npage()", default_timeout=60)
    again.query_params["find"] = page.query_params["find"]
    again.run()
    assert [e.value for e in again.error] == [error]
    assert "--timeout 77" in again.code[0].value


@pytest.mark.parametrize(
    ("statuses", "tone", "sentence"),
    [
        (["passed"] * 12 + ["skipped"], "good", "13 stages: 12 passed, 1 not needed or skipped."),
        (["passed"] * 8 + ["attention"] * 4, "warn", "12 stages: 8 passed, 4 to look at."),
        (["passed", "attention", "failed"], "bad", "3 stages: 1 passed, 1 to look at, 1 failed."),
    ],
)
def test_a_bring_up_is_green_only_where_there_is_nothing_to_look_at(statuses, tone, sentence):
    assert own.stages_told(statuses) == (tone, sentence)
