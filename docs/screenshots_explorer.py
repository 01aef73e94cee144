"""Pictures of the explorer's pages for the guide: real commands fill a store, a browser looks at it.

    python docs/screenshots_explorer.py [--store DIR] [--bringup DIR]

Without `--store` a store is made first: the selftest corpus on two chips, twice, and perf of one model.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

IMAGES = Path(__file__).parent / "images"
MAIN = Path(__file__).parents[1] / "src" / "proveout" / "app" / "main.py"
DONE = "[data-testid=stApp][data-test-script-state=notRunning]"
DRAWN = "!document.querySelector('[data-testid=stSkeleton]')"
SETTLE_S = 1.5
"""Charts draw themselves after the page is done."""


@dataclass(frozen=True)
class Shot:
    """One picture: its file, the page's address, the window."""

    name: str
    address: str
    width: int = 1280
    height: int = 1000
    dark: bool = False


SHOTS = (
    Shot("explorer-models", "models", height=1250),
    Shot("explorer-models-dark", "models", dark=True),
    Shot("explorer-models-narrow", "models", 390, 1400),
    Shot("explorer-model", "model?record={record}"),
    Shot("explorer-ops", "model?record={record}&section=Ops"),
    Shot("explorer-accuracy", "model?record={record}&section=Accuracy"),
    Shot("explorer-memory", "model?record={record}&section=Memory"),
    Shot("explorer-performance", "model?record={record}&section=Performance", height=1250),
    Shot("explorer-performance-dark", "model?record={record}&section=Performance", height=1250, dark=True),
    Shot("explorer-graph", "model?record={record}&section=Graph"),
    Shot("explorer-timings", "model?record={record}&section=Timings"),
    Shot("explorer-compare", "compare", height=1100),
    Shot("explorer-sweep", "sweep"),
    Shot("explorer-bringup", "bringup?folder={bringup}", height=1150),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--bringup", type=Path, default=Path("bringup"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = given.store or make_store(Path(scratch))
        take(SHOTS, store, given.bringup.absolute(), _explained(store))


def make_store(folder: Path) -> Path:
    """The store that the pictures show."""
    store = folder / "store"
    corpus = ["--search-dir", "selftest", "--cache-dir", str(store)]
    for words in (
        ["benchmark", "--all", *corpus, "--device", "sim:n150,sim:p150"],
        ["perf", "attention.py", *corpus, "-o", str(folder / "perf")],
        ["benchmark", "attention.py", *corpus, "--device", "sim:n150", "--iterations", "40"],
    ):
        program = "import sys; from proveout.cli import main; sys.exit(main(sys.argv[1:]))"
        subprocess.run([sys.executable, "-c", program, *words], check=False)
    return store


def _explained(store: Path) -> str:
    """A Record whose timings, comparisons and Programs are all there to be shown."""
    from proveout.app import data

    board = data.board(store)
    return next(e.id for e in board.entries if e.row["host_ms"] is not None and board.with_programs(e))


def take(shots: tuple[Shot, ...], store: Path, bringup: Path, record: str) -> None:
    """Start the app over a store and leave each picture in `docs/images/`."""
    from playwright.sync_api import TimeoutError, sync_playwright

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = [sys.executable, "-m", "streamlit", "run", str(MAIN), "--server.headless", "true"]
    words += ["--server.port", str(port), "--", "--cache-dir", str(store)]
    ours = os.environ | {"PYTHONPATH": str(MAIN.parents[2])}
    server = subprocess.Popen(words, env=ours, cwd=bringup.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(f"http://127.0.0.1:{port}/_stcore/health")
        with sync_playwright() as playwright:
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            for shot in shots:
                scheme = "dark" if shot.dark else "light"
                size = {"width": shot.width, "height": shot.height}
                page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
                page.goto(f"http://127.0.0.1:{port}/{shot.address.format(bringup=bringup.name, record=record)}")
                page.wait_for_selector(".po-head", timeout=120_000)
                page.wait_for_selector(DONE, timeout=120_000)
                with contextlib.suppress(TimeoutError):  # what lies below the window is drawn when it is scrolled to
                    page.wait_for_function(DRAWN, timeout=5_000)
                time.sleep(SETTLE_S)
                page.screenshot(path=IMAGES / f"{shot.name}.png")
                page.close()
                print(f"wrote {IMAGES / shot.name}.png")
            browser.close()
    finally:
        server.terminate()
        server.wait()


def _wait(address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urlopen(address, timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main()
