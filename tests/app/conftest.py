"""What the app's tests share: a server of its own and a browser."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """The address of a server with an empty store."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pytest.importorskip("streamlit", reason="needs the extra `app`")
    from proveout.cli.app import command_line

    cache = tmp_path_factory.mktemp("cache")
    log = (cache / "server.log").open("wb")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        command_line(port, str(cache / "store"), None, True), stdout=log, stderr=log, env=environment
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=1).close()
            break
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    yield address
    server.terminate()
    server.wait()


@pytest.fixture
def tab(chromium):
    """Opens tabs. Whatever asks for anything outside of this machine fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1400})
    outside: list[str] = []

    def check(route):
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    context.route("**/*", check)

    def opened(address: str, width: int = 1280):
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 1400})
        page.set_default_timeout(60_000)
        page.goto(address)
        return page

    yield opened
    context.close()
    assert not outside
