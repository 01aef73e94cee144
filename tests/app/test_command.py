"""`proveout app`: what is refused before a server starts, and what ships with it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from proveout import app
from proveout.cli.verbs import app as command
from proveout.errors import EnvironmentFault, UsageError


def test_a_missing_streamlit_is_named_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFault, match=r"needs streamlit .*pip install 'proveout\[app\]'"):
        command.command_line(None, None, None, True)


def test_a_folder_of_weights_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no such folder"):
        command.command_line(None, None, tmp_path / "none", True)


def test_a_port_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"is taken\. Choose another"):
            command.command_line(taken.getsockname()[1], None, None, True)


def test_the_server_listens_on_this_machine_only_and_tells_nobody(tmp_path):
    words = command.command_line(None, str(tmp_path), None, True)
    assert words[words.index("--server.address") + 1] == "127.0.0.1"
    assert words[words.index("--browser.gatherUsageStats") + 1] == "false"
    assert words[words.index("--global.developmentMode") + 1] == "false", (
        "it would refuse the port outside site-packages"
    )
    assert words[-2:] == ["--cache-dir", str(tmp_path)]


@pytest.mark.slow
def test_a_first_start_in_a_terminal_gives_the_address_asks_nothing_and_ends_by_ctrl_c(tmp_path):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOME": str(tmp_path), "BROWSER": "true", "PATH": "/nowhere"}
    words = [sys.executable, "-m", "proveout", "app", "--cache-dir", str(tmp_path)]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as server:
        said, health, deadline = "", None, time.monotonic() + command.START_S
        while health != b"ok" and time.monotonic() < deadline and server.poll() is None:
            if select.select([ours], [], [], 0.2)[0]:
                said += os.read(ours, 1 << 16).decode()
            if address := re.search(r"http://[\d.]+:\d+", said):
                with contextlib.suppress(OSError):
                    health = urllib.request.urlopen(f"{address[0]}/_stcore/health", timeout=1).read()
        server.send_signal(signal.SIGINT)
        assert health == b"ok", said
        assert "Streamlit" not in said
        assert server.wait(30) in (0, 130)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [1.0, 2.5, 4.0])
def test_ctrl_c_during_the_start_prints_no_stack(tmp_path, after_s):
    words = command.command_line(None, str(tmp_path), None, True)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        time.sleep(after_s)
        server.send_signal(signal.SIGINT)
        said, _ = server.communicate(timeout=30)
        assert "Traceback" not in said
        assert server.returncode in (0, -signal.SIGINT)


def test_the_demo_has_the_look_of_the_app():
    root, ours = Path(__file__).parents[2], Path(app.__file__).parent
    assert (root / ".streamlit/config.toml").read_text() == (ours / ".streamlit/config.toml").read_text()
