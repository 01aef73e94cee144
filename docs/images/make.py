"""Makes the screenshots of the web app: `python docs/images/make.py [NAME …]`. Needs the extra `test` and Chromium.

One table of pictures; each is a page, what to do there first, the window and light or dark. The explorer's are of a
store that real commands fill first: the selftest corpus on two chips, perf of one model and a bring-up.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, TimeoutError, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "app"))
from quick_runs import experts

from proveout.app import data
from proveout.cli.verbs.app import serving

HERE = Path(__file__).parent
SELFTEST = HERE.parents[1] / "corpora" / "selftest"
WIDE, TALL, NARROW = (1280, 1000), (1280, 1250), (390, 1400)
DONE = "[data-testid=stApp][data-test-script-state=notRunning]"
DRAWN = "!document.querySelector('[data-testid=stSkeleton]')"


@dataclass(frozen=True)
class Picture:
    name: str
    path: str
    """`{record}` stands for a Record of which all there is can be shown, `{folder}` for where the commands ran."""
    act: Callable[[Page], None]
    window: tuple[int, int] = WIDE
    theme: str = "light"


def look(page: Page) -> None:
    """Only wait until all is drawn; what lies below the window is when it is scrolled to."""
    page.wait_for_selector(DONE, timeout=120_000)
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(DRAWN, timeout=20_000)
    page.wait_for_timeout(1500)


def wait(page: Page) -> None:
    """A page that is a file: it is there at once."""
    page.wait_for_timeout(500)


def run_task(page: Page) -> None:
    """Run a task at its defaults, to the end."""
    page.get_by_role("button", name="Run").click()
    page.get_by_text("kept in the store").wait_for(timeout=400_000)
    look(page)


def start_task(page: Page) -> None:
    """Run a task and look while it is being timed."""
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Time per iteration").wait_for(timeout=400_000)
    with contextlib.suppress(TimeoutError):
        page.wait_for_function(DRAWN, timeout=20_000)
    page.wait_for_timeout(300)


def refuse_fallbacks(page: Page) -> None:
    """Meet a compile error: an op without a kernel that may not stay on the host."""
    page.get_by_text("Device and settings").click()
    page.wait_for_timeout(1200)  # it unfolds
    page.get_by_test_id("stSelectbox").filter(has_text="Ops without a kernel").locator("input").click()
    page.keyboard.type("error")
    page.keyboard.press("Enter")
    page.wait_for_timeout(800)
    page.get_by_text("Device and settings").click()
    page.get_by_role("button", name="Run").click()
    page.get_by_text("The compiler stopped").wait_for(timeout=400_000)
    page.wait_for_timeout(1000)


def name_script(page: Page) -> None:
    """A script of one's own, before anything runs."""
    project = Path("/tmp/project")  # what the picture shows, whatever this machine's own folders are called
    project.mkdir(exist_ok=True)
    shutil.copy(SELFTEST / "attention.py", project / "attention.py")
    page.get_by_label("Path of the script").fill(str(project / "attention.py"))
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Find models").wait_for()
    page.wait_for_timeout(1500)


def prove_script(page: Page) -> None:
    """A script of one's own, found, compiled, checked and timed."""
    name_script(page)
    page.get_by_role("button", name="Find models").click()
    page.get_by_role("button", name="Compile, check and time").wait_for(timeout=200_000)
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Compile, check and time").click()
    page.get_by_text("Open in the explorer").wait_for(timeout=300_000)
    look(page)


PLAYGROUND = (
    Picture("app-start", "", look),
    Picture("app-own", "own", name_script),
    Picture("app-own-results", "own", prove_script, (1280, 2000)),
    Picture("app-digits", "digits", run_task, TALL),
    Picture("app-digits-dark", "digits", run_task, TALL, "dark"),
    Picture("app-digits-narrow", "digits", run_task, (390, 2400)),
    Picture("app-pictures", "pictures", run_task, TALL),
    Picture("app-answers", "answers", run_task, TALL),
    Picture("app-text", "text", run_task, TALL),
    Picture("app-code", "code", run_task, TALL),
    Picture("app-running", "code", start_task, TALL),
)
REPORT = (Picture("report", "file://{folder}/report/report.html", wait, (1280, 900)),)
ERRORS = (Picture("app-error", "answers", refuse_fallbacks, (1280, 1300)),)
EXPLORER = (
    Picture("explorer-models", "models", look, TALL),
    Picture("explorer-models-dark", "models", look, theme="dark"),
    Picture("explorer-models-narrow", "models", look, NARROW),
    Picture("explorer-model", "model?record={record}", look),
    Picture("explorer-ops", "model?record={record}&section=Ops", look),
    Picture("explorer-accuracy", "model?record={record}&section=Accuracy", look),
    Picture("explorer-memory", "model?record={record}&section=Memory", look),
    Picture("explorer-performance", "model?record={record}&section=Performance", look, TALL),
    Picture("explorer-performance-dark", "model?record={record}&section=Performance", look, TALL, "dark"),
    Picture("explorer-graph", "model?record={record}&section=Graph", look),
    Picture("explorer-timings", "model?record={record}&section=Timings", look),
    Picture("explorer-generation", "generation", look, TALL),
    Picture("explorer-compare", "compare", look, TALL),
    Picture("explorer-sweep", "sweep", look),
    Picture("explorer-bringup", "bringup?folder=bringup", look, TALL),
)


def main(names: Sequence[str]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    wanted = {p.name for p in (*PLAYGROUND, *ERRORS, *REPORT, *EXPLORER)}
    if set(names) - wanted:
        raise SystemExit(
            f"no picture is called {', '.join(set(names) - wanted)}; there are {', '.join(sorted(wanted))}"
        )
    with tempfile.TemporaryDirectory(prefix="proveout-", dir="/tmp") as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for pictures, fill in (
            (PLAYGROUND, nothing),
            (ERRORS, nothing_but_weights),
            (REPORT, report),
            (EXPLORER, results),
        ):
            chosen = [picture for picture in pictures if not names or picture.name in names]
            folder = Path(scratch, fill.__name__)
            folder.mkdir()
            if chosen:
                record = fill(folder)
                weights = folder / "weights"
                with serving(folder / "store", cwd=folder, weights=weights if weights.is_dir() else None) as address:
                    for picture in chosen:
                        path = picture.path.format(record=record, folder=folder)
                        take(browser, path if path.startswith("file:") else f"{address}/{path}", picture)
        browser.close()


def nothing(folder: Path) -> str:
    """An empty store, as a new user has it."""
    return ""


def nothing_but_weights(folder: Path) -> str:
    """Weights of a model with an op that no kernel serves, for the task of questions."""
    experts(folder / "weights")
    return ""


def report(folder: Path) -> str:
    """The report that `make demo` leaves of its corpus."""
    store = ["--cache-dir", str(folder / "store")]
    run(
        folder,
        ["benchmark", "--all", "--search-dir", str(SELFTEST), *store, "--device", "sim", "--iterations", "20"],
        ["report", *store, "-o", str(folder / "report")],
    )
    return ""


def run(folder: Path, *commands: list[str]) -> None:
    program = "import sys; from proveout.cli import main; sys.exit(main(sys.argv[1:]))"
    for words in commands:
        subprocess.run([sys.executable, "-c", program, *words], cwd=folder, check=False)


def results(folder: Path) -> str:
    """A store with something to explore; gives the Record that the model's page shows."""
    store = ["--cache-dir", str(folder / "store")]
    run(
        folder,
        ["benchmark", "--all", "--search-dir", str(SELFTEST), *store, "--device", "sim:n150,sim:p150"],
        ["perf", str(SELFTEST / "attention.py"), *store, "-o", str(folder / "perf")],
        ["benchmark", str(SELFTEST / "attention.py"), *store, "--device", "sim:n150", "--iterations", "40"],
        ["tokens", "transformers/llama", "--small", *store, "--batch", "1,4", "--prompt-length", "64"],
        ["bringup", str(SELFTEST / "attention.py"), "-o", str(folder / "bringup")],
    )
    board = data.board(folder / "store")
    return next(e.id for e in board.entries if e.row.host_ms is not None and board.with_programs(e))


def take(browser: Any, address: str, picture: Picture) -> None:
    width, height = picture.window
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=picture.theme)
    page = context.new_page()
    page.goto(address)
    page.get_by_role("heading").first.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    picture.act(page)
    page.mouse.move(0, 0)
    page.screenshot(path=HERE / f"{picture.name}.png")
    context.close()
    print(picture.name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
