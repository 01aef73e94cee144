"""The explorer in a real browser: empty, over a thousand Records, by deep links; nothing leaves the machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import urlopen

import pytest

from record_stores import many, some

pytest.importorskip("streamlit")
pytest.importorskip("plotly")
import proveout.app

pytestmark = [pytest.mark.browser, pytest.mark.slow]
"""A board of a thousand Records is there by then, none of them read before."""
DONE = "[data-testid=stApp][data-test-script-state=notRunning]"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    (folder / "empty").mkdir()
    return {"empty": folder / "empty", "some": some(folder / "some"), "many": many(folder / "many")}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """One server; the link `store` says which store it reads."""
    folder = tmp_path_factory.mktemp("app")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    main = Path(proveout.app.__file__).with_name("main.py")
    words = [sys.executable, "-m", "streamlit", "run", str(main), "--server.headless", "true"]
    words += ["--server.port", str(port), "--", "--cache-dir", str(folder / "store")]
    ours = os.environ | {"PYTHONPATH": str(main.parents[2])}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, env=ours)
    try:
        base = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urlopen(f"{base}/_stcore/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield base, folder / "store"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture
def visit(app, stores, chromium):
    """Open a page over one of the stores; at the end, every request must have been for this machine."""
    base, link = app
    asked, contexts = [], []

    def visit(store, path, width=1280, dark=False):
        link.unlink(missing_ok=True)
        link.symlink_to(stores[store])
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{base}/{path}")
        page.wait_for_selector(".po-head", timeout=30_000)
        page.wait_for_selector(DONE, timeout=30_000)
        return page

    yield visit
    for context in contexts:
        context.close()
    hosts = {urlparse(url).hostname for url in asked if urlparse(url).scheme not in ("data", "blob", "about")}
    assert hosts == {"127.0.0.1"}


def test_an_empty_store_says_how_to_fill_it(visit):
    page = visit("empty", "models")
    assert "proveout benchmark" in page.locator(".po-empty").inner_text()


def test_a_board_shows_a_thousand_records(visit):
    page = visit("many", "models?newest=false")
    page.wait_for_selector("[data-testid=stDataFrame] canvas", timeout=60_000)
    assert "1,000 of 1,000 Records" in page.locator("[data-testid=stMain]").inner_text()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.parametrize("path", ["models", "model?record=lab/attention", "compare", "sweep", "bringup"])
def test_no_page_is_wider_than_the_window(visit, path, width, dark):
    page = visit("some", path, width, dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not page.locator("[data-testid=stException]").count()


def test_a_deep_link_opens_a_model_at_one_section(visit):
    page = visit("some", "model?record=lab/attention&section=Accuracy")
    assert page.locator(".po-head h1").inner_text() == "attention"
    assert page.get_by_text("PCC per module").is_visible()
    page.get_by_role("radio", name="Timings").or_(page.get_by_role("button", name="Timings")).first.click()
    page.get_by_text("simulation on").first.wait_for(timeout=20_000)
    assert "section=Timings" in page.url


def test_two_records_are_compared_from_an_address(visit):
    page = visit("some", "compare?left=lab/attention&right=lab/attention-later")
    text = page.locator("[data-testid=stMain]").inner_text()
    assert "both modelled" in text
    assert "differences" in text


def test_the_table_of_models_is_downloaded_whole(visit):
    page = visit("some", "models?newest=false")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").first.click()
    text = Path(download.value.path()).read_text()
    head, *lines = text.splitlines()
    assert head.startswith("state,model,device")
    assert len(lines) == 5
