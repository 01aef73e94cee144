"""Makes the screenshots of the web app: `python docs/images/make.py [NAME …]`. Needs the extra `test` and Chromium.

One table of pictures; each is a page, what to do there first, the window and light or dark.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from proveout.cli.app import command_line

HERE = Path(__file__).parent
WIDE, NARROW = (1280, 1000), (390, 1400)


@dataclass(frozen=True)
class Picture:
    name: str
    path: str
    act: Callable[[Page], None]
    window: tuple[int, int] = WIDE
    theme: str = "light"


def look(page: Page) -> None:
    """Only wait until all is drawn."""
    page.wait_for_timeout(2500)


def run_task(page: Page) -> None:
    """Run a task at its defaults, to the end."""
    page.get_by_role("button", name="Run").click()
    page.get_by_text("kept in the store").wait_for(timeout=400_000)
    page.wait_for_timeout(1500)


def start_task(page: Page) -> None:
    """Run a task and look while it is being timed."""
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Time per iteration").wait_for(timeout=400_000)
    page.wait_for_timeout(300)


def refuse_fallbacks(page: Page) -> None:
    """Meet a compile error: an op without a kernel that may not stay on the host."""
    page.get_by_text("Device and settings").click()
    page.get_by_test_id("stSelectbox").filter(has_text="Ops without a kernel").locator("input").click()
    page.get_by_role("option", name="error", exact=True).click()
    page.wait_for_timeout(800)
    page.get_by_text("Device and settings").click()
    page.get_by_role("button", name="Run").click()
    page.get_by_text("The compiler stopped").wait_for(timeout=400_000)
    page.wait_for_timeout(1000)


PICTURES = (
    Picture("app-start", "", look),
    Picture("app-digits", "digits", run_task, (1280, 1250)),
    Picture("app-digits-dark", "digits", run_task, (1280, 1250), "dark"),
    Picture("app-digits-narrow", "digits", run_task, (390, 2400)),
    Picture("app-pictures", "pictures", run_task, (1280, 1250)),
    Picture("app-answers", "answers", run_task, (1280, 1250)),
    Picture("app-text", "text", run_task, (1280, 1250)),
    Picture("app-code", "code", run_task, (1280, 1250)),
    Picture("app-running", "code", start_task, (1280, 1250)),
    Picture("app-error", "answers", refuse_fallbacks, (1280, 1100)),
)


def main(names: list[str]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as store, sync_playwright() as playwright:
        address, server = serve(store)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        try:
            for picture in PICTURES:
                if not names or picture.name in names:
                    take(browser, address, picture)
        finally:
            browser.close()
            server.terminate()
            server.wait()


def take(browser: Any, address: str, picture: Picture) -> None:
    width, height = picture.window
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=picture.theme)
    page = context.new_page()
    page.goto(f"{address}/{picture.path}")
    page.get_by_role("heading").first.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    picture.act(page)
    page.mouse.move(0, 0)
    page.screenshot(path=HERE / f"{picture.name}.png")
    context.close()
    print(picture.name, flush=True)


def serve(store: str) -> tuple[str, subprocess.Popen[bytes]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(command_line(port, store, None, True), stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    for _ in range(150):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=1).close()
            return address, server
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SystemExit("the app did not start")


if __name__ == "__main__":
    main(sys.argv[1:])
