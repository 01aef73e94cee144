"""`proveout app`: the web app, on this machine only."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from proveout.cli.options import CacheDir
from proveout.errors import EnvironmentFault, UsageError

ADDRESS = "127.0.0.1"
HOSTS = ("localhost", ADDRESS)
"""What a browser may call this machine: a page whose own name points here gets no answer."""
PORT = 8501
START_S = 60.0
NEEDS = {"streamlit": "streamlit", "plotly": "plotly", "PIL": "pillow", "transformers": "transformers"}
"""Modules beyond our own dependencies, and the packages that hold them."""

Port = Annotated[
    int | None,
    typer.Option(
        "--port", min=1, max=65535, metavar="N", help="[default: 8501, or the next free one]", show_default=False
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights", metavar="DIR", help="Your own weights: a folder with a folder for each task.", show_default=False
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="CIFAR-10 and MNIST as torchvision leaves them [default: data in the cache].",
        show_default=False,
    ),
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address instead of opening it.")]


def verb(
    port: Port = None,
    cache_dir: CacheDir = None,
    weights: Weights = None,
    data: Data = None,
    no_browser: NoBrowser = False,
) -> int:
    """Try five tasks and explore all results in the browser.

    \b
    Examples:
      proveout app
      proveout app --port 9000 --no-browser --cache-dir results
      proveout app --weights ~/models        ~/models/text, ~/models/digits …
    """
    command = command_line(port, cache_dir, weights, no_browser, data)
    at = command[command.index("--server.port") + 1]
    print(f"The app is at http://{ADDRESS}:{at}. Ctrl-C stops it.", flush=True)
    os.execv(command[0], command)  # this process becomes the server: Ctrl-C and signals reach it


def command_line(
    port: int | None, cache_dir: str | None, weights: Path | None, no_browser: bool, data: Path | None = None
) -> list[str]:
    """The server's command, checked: what cannot work is said before anything starts."""
    missing = [package for module, package in NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise EnvironmentFault(f"the app needs {' and '.join(missing)}. Run: pip install 'proveout[app]'")
    for name, folder in (("--weights", weights), ("--data", data)):
        if folder is not None and not folder.expanduser().is_dir():
            raise UsageError(f"{name} {folder}: there is no such folder.")
    options = ["--cache-dir", os.path.abspath(os.path.expanduser(cache_dir))] if cache_dir else []
    options += ["--weights", str(weights.expanduser().resolve())] if weights else []
    options += ["--data", str(data.expanduser().resolve())] if data else []
    settings = {
        "global.developmentMode": "false",  # Streamlit takes its own source tree for whatever is in no site-packages
        "server.address": ADDRESS,
        "server.port": str(_free(port)),
        "server.headless": "true" if no_browser else "false",
        "server.showEmailPrompt": "false",  # a first start would wait for an address to be typed
        "global.disableWidgetStateDuplicationWarning": "true",  # what was typed comes back from another page
        "logger.level": "warning",
        "logger.hideWelcomeMessage": "true",  # it speaks of Streamlit
        "browser.gatherUsageStats": "false",
    }
    flags = [word for name, value in settings.items() for word in (f"--{name}", value)]
    flags += [word for host in HOSTS for word in ("--server.allowedHosts", host)]
    spec = importlib.util.find_spec("proveout.app.main")
    assert spec is not None
    assert spec.origin is not None
    return [sys.executable, "-m", "proveout.app.serve", "run", spec.origin, *flags, "--", *options]


def _free(wanted_port: int | None) -> int:
    """The port that was asked for, or the first free one from the usual one on."""
    for port in [wanted_port] if wanted_port else range(PORT, PORT + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
            except OSError:
                continue
            return port
    raise UsageError(f"port {wanted_port or PORT} is taken. Choose another with --port N.")


@contextmanager
def serving(
    store: Path, cwd: Path | None = None, environment: Mapping[str, str] | None = None, weights: Path | None = None
) -> Iterator[str]:
    """The app over a store, without a browser of its own, for as long as the block lasts; gives its address."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port = probe.getsockname()[1]
    source = str(Path(__file__).parents[3])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryFile("w+") as log:
        command = command_line(port, str(store), weights, True)
        server = subprocess.Popen(command, cwd=cwd, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://{ADDRESS}:{port}"
            _wait(server, f"{address}/_stcore/health", log)
            yield address
        finally:
            server.terminate()
            server.wait()


def _wait(server: subprocess.Popen[bytes], address: str, log: TextIO) -> None:
    import urllib.request

    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    log.seek(0)
    said = (log.read().strip().splitlines() or ["it said nothing"])[-1]
    how = f"did not start within {START_S:g} s" if server.poll() is None else f"ended with code {server.returncode}"
    raise EnvironmentFault(f"the app's server {how}: {said}")
