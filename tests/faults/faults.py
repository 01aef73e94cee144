"""Breaks things on purpose and counts what is lost: `python tests/faults/faults.py [TRIES]`, or `make faults`.

Each row of FAULTS is one way to break something, tried several times. A loss is a finished result that is gone or
damaged afterwards, a traceback, or a process that stays. Noticing is the time until the next command says what
happened or goes on. Writes the table to docs/reference/faults.md and exits with 1 where anything was lost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from proveout.errors import ProveoutError
from proveout.store import Store
from proveout.types import Job, Record, Timing, Workload

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "faults.md"
SCRIPT = "import torch\nmodel = torch.nn.Linear({0}, {0})\nmodel(torch.ones(1, {0}))\n"
SCRIPTS = 3
PROVEOUT = [sys.executable, "-c", "import sys; from proveout.cli import main; sys.exit(main())"]


@dataclasses.dataclass
class Try:
    lost: int = 0
    noticed_s: float = 0.0
    why: str = ""


def record(number: int) -> Record:
    timing = Timing("compiled", "modelled", "sim:n150", (1000 + number,) * 3)
    return Record(Job(Workload(f"m{number}", f"m{number}.py", "m")), "passed", timings=(timing,))


def command(folder: Path, *words: str) -> list[str]:
    return [*PROVEOUT, *words, "--cache-dir", str(folder / "cache")]


def started(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    log = (folder / "log").open("ab")
    return subprocess.Popen(command(folder, *words), cwd=folder, stdout=log, stderr=log, start_new_session=True)


def scripts(folder: Path) -> list[str]:
    for number in range(SCRIPTS):
        (folder / f"s{number}.py").write_text(SCRIPT.format(4 + number))
    return [f"s{number}.py" for number in range(SCRIPTS)]


def sweep(folder: Path) -> list[str]:
    return ["benchmark", *scripts(folder), "--device", "sim", "--iterations", "2"]


def kept(folder: Path) -> dict[str, float]:
    """Every readable Record that passed, by its key."""
    good, _ = Store(folder / "cache").records()
    return {r.job.key: r.timings[0].median_ns if r.timings else 0.0 for r in good if r.status == "passed"}


def resumed(folder: Path, words: list[str], before: dict[str, float]) -> Try:
    """The same command again: it must end well, with all that was there before and all that was asked for."""
    began = time.monotonic()
    again = subprocess.run(command(folder, *words), cwd=folder, capture_output=True, text=True, timeout=600)
    after, text = kept(folder), again.stdout + again.stderr
    lost = sum(after.get(key) != value for key, value in before.items()) + max(0, SCRIPTS - len(after))
    lost += "Traceback" in text
    return Try(lost, time.monotonic() - began, text[-500:] if lost else "")


def killed_sweep(folder: Path, rng: random.Random) -> Try:
    words = sweep(folder)
    child = started(folder, *words)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=rng.uniform(0.5, 25))
    child.kill()
    child.wait()
    return resumed(folder, words, kept(folder))


def killed_workers(folder: Path, rng: random.Random) -> Try:
    """The processes below the controller, one after the other."""
    from proveout.isolate import descendants

    words = sweep(folder)
    child = started(folder, *words)
    until = time.monotonic() + 300
    kills = 0
    while child.poll() is None and time.monotonic() < until:
        below = descendants(child.pid)
        if below and kills < 3 and rng.random() < 0.2:
            kills += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(below), signal.SIGKILL)
        time.sleep(0.2)
    return resumed(folder, words, kept(folder))


def two_sweeps(folder: Path, rng: random.Random) -> Try:
    words = sweep(folder)
    children = [started(folder, *words) for _ in range(2)]
    codes = [child.wait(timeout=600) for child in children]
    outcome = resumed(folder, words, kept(folder))
    outcome.lost += sum(code != 0 for code in codes)
    return outcome


def interrupted_writes(folder: Path, rng: random.Random) -> Try:
    """A process that writes Records as quickly as it can is killed; those it told of must be there."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from faults import record, Store\n"
        "for n in range(10_000):\n"
        "    Store(sys.argv[1]).write(record(n)); print(n, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / "cache"), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    told = []
    for line in child.stdout:
        told.append(int(line))
        if len(told) >= rng.randrange(5, 120):
            break
    child.kill()
    child.wait()
    began = time.monotonic()
    good, bad = Store(folder / "cache").records()
    names = {r.job.workload.name for r in good}
    return Try(sum(f"m{n}" not in names for n in told) + len(bad), time.monotonic() - began)


def one_in_a_thousand(folder: Path, rng: random.Random) -> Try:
    store = Store(folder / "cache")
    paths = [store.write(dataclasses.replace(record(n), timings=())) for n in range(1000)]
    paths[rng.randrange(1000)].write_bytes(rng.randbytes(300))
    began = time.monotonic()
    good, bad = store.records()
    return Try(999 - len(good) + abs(len(bad) - 1), time.monotonic() - began)


def store_removed(folder: Path, rng: random.Random) -> Try:
    """Somebody deletes the cache while it is written: what comes after is kept."""
    store = Store(folder / "cache")
    for number in range(20):
        store.write(record(number))
    shutil.rmtree(folder / "cache")
    began = time.monotonic()
    for number in range(20, 30):
        store.write(record(number))
    return Try(10 - len(store.records()[0]), time.monotonic() - began)


def clock_jumps(folder: Path, rng: random.Random) -> Try:
    """Files from the future and from 1970: order and freshness never decide what is read."""
    store = Store(folder / "cache")
    for number in range(20):
        path = store.write(record(number))
        when = rng.choice((0, 4_000_000_000))
        os.utime(path, (when, when))
    began = time.monotonic()
    store.write(record(3))
    return Try(20 - len(store.records()[0]), time.monotonic() - began)


def unwritable(folder: Path, rng: random.Random) -> Try:
    """A cache that cannot be written is told before any work, in a sentence."""
    (folder / "file").write_text("")
    began = time.monotonic()
    words = [*PROVEOUT, *sweep(folder), "--cache-dir", str(folder / "file" / "cache")]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    told = done.returncode == 3 and "cannot write to the cache" in done.stderr and "Traceback" not in done.stderr
    return Try(int(not told), time.monotonic() - began, done.stderr[-300:])


def full_disk(folder: Path, rng: random.Random) -> Try:
    """A disk of a few pages: every write either keeps a whole Record or says that there is no space."""
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={rng.randrange(16, 96)}k", "none", str(disk)]).returncode:
        raise Unavailable("a small disk cannot be mounted here")
    try:
        store, written, told, began = Store(disk / "cache"), 0, 0, time.monotonic()
        for number in range(60):
            try:
                store.write(record(number))
                written += 1
            except ProveoutError as error:
                told += "No space left" in str(error)
        spent = time.monotonic() - began
        good, bad = store.records()
        return Try(written - len(good) + len(bad) + 60 - written - told, spent / 60)
    finally:
        subprocess.run(["umount", str(disk)])


def leaking_model(folder: Path, rng: random.Random) -> Try:
    leak = "import torch\nheld = []\nwhile True: held.append(torch.ones(1 << 24))\n"
    (folder / "leak.py").write_text(leak)
    words = ["benchmark", "leak.py", *scripts(folder), "--device", "sim", "--iterations", "2", "--memory", "3"]
    began = time.monotonic()
    done = subprocess.run(command(folder, *words), cwd=folder, capture_output=True, text=True, timeout=600)
    return Try(max(0, SCRIPTS - len(kept(folder))) + ("Traceback" in done.stderr), time.monotonic() - began)


def cache_of_graphs(folder: Path, rng: random.Random) -> Try:
    """A compile cache is cut short or overwritten between two compilations: the numbers stay the same."""
    code = (
        "import torch, proveout; torch.manual_seed(0)\n"
        "m = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval()\n"
        "print(proveout.compile(m, torch.ones(2, 8), device='sim')(torch.ones(2, 8)).sum().item())\n"
    )
    env = {**os.environ, "PROVEOUT_CACHE": str(folder / "cache")}

    def run() -> str:
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout

    wanted = run()
    for path in (folder / "cache" / "programs").glob("*.program"):
        data = path.read_bytes()
        path.write_bytes(rng.choice((data[: rng.randrange(len(data))], rng.randbytes(len(data)), b"")))
    began = time.monotonic()
    return Try(int(not wanted or run() != wanted), time.monotonic() - began)


COMPILES = """
import sys, torch, proveout
torch.manual_seed(0)
for n in range(1, 40):
    torch._dynamo.reset()
    m = torch.nn.Sequential(torch.nn.Linear(8, 8 * n), torch.nn.GELU()).eval()
    print(n, proveout.compile(m, torch.ones(2, 8), device="sim")(torch.ones(2, 8)).sum().item(), flush=True)
    if n == int(sys.argv[1]):
        break
"""


def killed_compile(folder: Path, rng: random.Random) -> Try:
    """A process is killed while it compiles and keeps what it compiled; the next one has the same numbers."""
    env = {**os.environ, "PROVEOUT_CACHE": str(folder / "cache")}
    child = subprocess.Popen([sys.executable, "-c", COMPILES, "40"], env=env, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = []
    for line in child.stdout:
        told.append(line)
        if len(told) >= 5:
            break
    time.sleep(rng.uniform(0, 0.5))
    child.kill()
    child.wait()
    began = time.monotonic()
    again = subprocess.run([sys.executable, "-c", COMPILES, "5"], env=env, capture_output=True, text=True)
    return Try(int(again.stdout != "".join(told)), time.monotonic() - began, again.stderr[-300:])


BENCHMARKS = """
import time, proveout
def model(x):
    time.sleep(0.002)
    return x
proveout.benchmark(model, 1, duration=30, n_models=1, workers_per_model=1, verbosity=0, warmup=1)
"""


def killed_benchmark(folder: Path, rng: random.Random) -> Try:
    """The times of a benchmark whose controller is killed are there for `proveout recover`."""
    from proveout.measure import runs

    child = subprocess.Popen([sys.executable, "-c", BENCHMARKS], stdout=subprocess.DEVNULL)
    until, left = time.monotonic() + 60, []
    while not left and time.monotonic() < until:
        time.sleep(0.1)
        places = [f for root in runs._roots() if root.is_dir() for f in root.glob(f"{runs.PREFIX}*")]
        left = [f for f in places if (f / "run.json").exists() and str(child.pid) in (f / "run.json").read_text()]
    time.sleep(rng.uniform(3, 8))
    child.kill()
    child.wait()
    time.sleep(1)
    began = time.monotonic()
    words = [*PROVEOUT, "recover", *map(str, left), "-o", str(folder), "--cache-dir", str(folder / "cache")]
    done = subprocess.run(words, capture_output=True, text=True)
    kept_there = list(folder.glob("recovered-*.json"))
    lost = len(kept_there) != 1 or done.returncode != 0 or any(f.exists() for f in left)
    return Try(int(lost), time.monotonic() - began, done.stderr[-300:])


def killed_app(folder: Path, rng: random.Random) -> Try:
    """The app's server is killed and started again over the same store."""
    from proveout.cli.verbs.app import serving

    store = Store(folder / "cache")
    for number in range(10):
        store.write(record(number))
    with serving(folder / "cache"):
        time.sleep(rng.uniform(0, 3))
    began = time.monotonic()
    with serving(folder / "cache"):
        noticed = time.monotonic() - began
    return Try(10 - len(store.records()[0]), noticed)


class Unavailable(Exception):
    """This machine cannot break in that way."""


FAULTS: dict[str, tuple[Callable[[Path, random.Random], Try], int]] = {
    "a sweep is killed (kill -9) at any moment, and run again": (killed_sweep, 1),
    "its workers are killed one after the other": (killed_workers, 1),
    "two sweeps write to one cache": (two_sweeps, 1),
    "a process is killed while it writes Records": (interrupted_writes, 4),
    "one of 1,000 Records is garbage": (one_in_a_thousand, 2),
    "the cache is removed while it is written": (store_removed, 4),
    "the clock jumps by decades, both ways": (clock_jumps, 4),
    "the cache cannot be written": (unwritable, 1),
    "the disk is full at every write": (full_disk, 4),
    "a model leaks until its limit": (leaking_model, 1),
    "compiled graphs in the cache are damaged": (cache_of_graphs, 2),
    "a process is killed while it compiles": (killed_compile, 2),
    "a benchmark is killed, and recovered": (killed_benchmark, 2),
    "the app's server is ended and started again": (killed_app, 1),
}
"""What is broken, and how many times as often it is tried as the slowest."""


def rows(tries: int) -> Iterator[tuple[str, int, int, str]]:
    for name, (fault, times) in FAULTS.items():
        outcomes: list[Try] = []
        reason = ""
        for seed in range(tries * times):
            with tempfile.TemporaryDirectory(prefix="faults-") as folder:
                try:
                    outcomes.append(fault(Path(folder), random.Random(seed)))
                except Unavailable as error:
                    reason = str(error)
                    break
        for outcome in outcomes:
            if outcome.lost:
                print(f"LOST: {name}: {outcome.why}", file=sys.stderr)
        lost = sum(outcome.lost for outcome in outcomes)
        longest = max((outcome.noticed_s for outcome in outcomes), default=0.0)
        yield name, len(outcomes), lost, reason or f"{longest:.2g} s"
        print(json.dumps([name, len(outcomes), lost, reason or f"{longest:.2g} s"]), flush=True)


def main(tries: int = 5) -> int:
    found = list(rows(tries))
    print(write_page(found))
    return int(any(lost for _, _, lost, _ in found))


def write_page(found: list[tuple[str, int, int, str]]) -> str:
    lines = [
        "# What breaks, and what is lost",
        "",
        "`make faults` makes this table: everything is broken for real, as often as it says, at random moments. A loss",
        "is a finished result that is gone or damaged, a traceback, or a wrong number. The last column is the longest",
        "time until the next command had noticed or repaired it, on the machine and under the load that it was made.",
        "",
        "| fault | tries | losses | noticed within |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {count} | {lost} | {noticed} |" for name, count, lost, noticed in found),
        "",
        "More ways to break a benchmark are in `tests/unit/test_benchmark_faults.py`; the death of a Ray node is in",
        "`tests/e2e/test_ray.py`. Bring-up, whose stages take minutes, is not killed here.",
    ]
    text = "\n".join(lines) + "\n"
    PAGE.write_text(text)
    return text


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
