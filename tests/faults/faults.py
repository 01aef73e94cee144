"""Breaks things on purpose and counts what is lost: `python tests/faults/faults.py`, or `make faults`.

Each row of FAULTS is one way to break something, tried several times. A loss is a finished result that is gone or
damaged afterwards, a traceback, or a process that stays. Noticing is the time until the next command says what
happened or goes on. Every row is kept as soon as it is made (docs/reference/faults.json), and the page
docs/reference/faults.md is drawn from all rows kept: `--rows bring-up app` makes only those whose name has one of these
words again, `--missing` only those that were never made. Exits with 1 where anything was lost.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
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
ROWS = PAGE.with_suffix(".json")
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
    with small_disk(folder, rng.randrange(16, 96)) as disk:
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


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(disk)]).returncode:
        raise Unavailable("a small disk cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def full_disk_in_a_sweep(folder: Path, rng: random.Random) -> Try:
    """The disk of the cache is full at some write of a sweep; with room again, the same command ends well."""
    with small_disk(folder, rng.randrange(8, 160, 4)) as disk:
        words = sweep(folder)
        command = [*PROVEOUT, *words, "--cache-dir", str(disk / "cache")]
        first = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        lost = "Traceback" in first.stderr or len(Store(disk / "cache").records()[1])
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        (folder / "cache").symlink_to(disk / "cache")
        outcome = resumed(folder, words, kept(folder))
        outcome.lost += int(lost)
        outcome.why += first.stderr[-300:] if lost else ""
        return outcome


def full_disk_of_graphs(folder: Path, rng: random.Random) -> Try:
    """Compiled graphs find no room: the numbers are the same, and nothing half-written is read later."""
    with small_disk(folder, rng.randrange(4, 40, 4)) as disk:
        code = COMPILES.replace("range(1, 40)", "range(1, 4)")
        runs = [
            subprocess.run(
                [sys.executable, "-c", code, "3"],
                env={**os.environ, "PROVEOUT_CACHE": str(place)},
                capture_output=True,
                text=True,
            )
            for place in (folder / "cache", disk / "cache", disk / "cache")
        ]
        wrong = len({run.stdout for run in runs}) != 1 or any(run.returncode for run in runs)
        return Try(int(wrong), 0.0, runs[-1].stderr[-300:])


def read_only_cache(folder: Path, rng: random.Random) -> Try:
    """A cache that can only be read is read; a sweep into it is told before any work."""
    with small_disk(folder, 1024) as disk:
        store = Store(disk / "cache")
        for number in range(5):
            store.write(record(number))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        place = ["--cache-dir", str(disk / "cache")]
        read = [*PROVEOUT, "query", "select count(*) as n from records", *place]
        told = subprocess.run(read, cwd=folder, capture_output=True, text=True, timeout=300)
        began = time.monotonic()
        done = subprocess.run([*PROVEOUT, *sweep(folder), *place], cwd=folder, capture_output=True, text=True)
        noticed = time.monotonic() - began
        said = done.returncode == 3 and "Traceback" not in done.stderr and "read-only" in done.stderr.lower()
        return Try(int("5" not in told.stdout) + int(not said), noticed, told.stderr[-200:] + done.stderr[-300:])


JUMPS = """
import random, time, datetime
real, real_ns = time.time, time.time_ns
def jumped():
    return random.choice((0, 0, 10**9, -10**9, 3600, -3600))
time.time = lambda: max(0.0, real() + jumped())
time.time_ns = lambda: max(0, real_ns() + jumped() * 10**9)
"""


def clock_of_a_sweep_jumps(folder: Path, rng: random.Random) -> Try:
    """Every process of a sweep reads a clock that jumps by hours and decades, at every reading."""
    (folder / "clock").mkdir()
    (folder / "clock" / "sitecustomize.py").write_text(JUMPS)
    words = sweep(folder)
    paths = os.pathsep.join(filter(None, (str(folder / "clock"), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command(folder, *words),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
    )
    outcome = resumed(folder, words, kept(folder))
    outcome.lost += int(done.returncode != 0 or "Traceback" in done.stderr)
    return outcome


def killed_bringup(folder: Path, rng: random.Random) -> Try:
    """Bring-up is killed in each of its stages, one after the other; what was done before stays as it was."""
    from proveout.bringup import STAGES, Folder

    script, place, longest = scripts(folder)[0], folder / "bringup", 0.0
    words = [*PROVEOUT, "bringup", script, "--no-tests", "-o", str(place)]
    lost, why = 0, ""
    before: dict[str, str] = {}
    for stage in STAGES:
        child = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 300
        while child.poll() is None and time.monotonic() < until:
            if stage.name in Folder(place).running():
                break
            time.sleep(0.002)
        child.kill()
        child.wait()
        for path in sorted((place / "stages").glob("*.json")):
            outcome = json.loads(path.read_text())
            if outcome["name"] in before and outcome.get("key") != before[outcome["name"]]:
                lost, why = lost + 1, f"{outcome['name']} was made again after a kill in {stage.name}"
            if outcome["status"] in ("passed", "attention"):
                before[outcome["name"]] = outcome.get("key", "")
    began = time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=900)
    longest = time.monotonic() - began
    stages = {path.stem: json.loads(path.read_text()) for path in (place / "stages").glob("*.json")}
    ended_well = ("passed", "attention")
    bad = [n for n, outcome in stages.items() if outcome["status"] not in ended_well and outcome.get("applies", True)]
    lost += len(bad) + ("Traceback" in done.stderr) + abs(len(stages) - len(STAGES))
    return Try(lost, longest, why + f" {bad} {done.stderr[-300:]}")


DIES = """
import os, time, proveout
calls = 0
def model(x):
    global calls
    calls += 1
    time.sleep(0.002)
    if calls > 200:
        os.kill(os.getpid(), 9)
    return x
(report,) = proveout.benchmark(model, 1, duration=60, n_models=1, workers_per_model=1, verbosity=0, warmup=1)
print(report["status"], report["total_calls"])
"""


def killed_benchmark_worker(folder: Path, rng: random.Random) -> Try:
    """A benchmark's worker is killed: the calls until then are in the report."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", DIES], capture_output=True, text=True, timeout=300, cwd=folder)
    status, _, calls = done.stdout.strip().partition(" ")
    lost = status != "partial" or int(calls or 0) < 150
    return Try(int(lost), time.monotonic() - began, done.stdout[-100:] + done.stderr[-300:])


ESCAPES = """
import os, time, proveout
def model(x):
    if not os.path.exists("pid") and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open("pid", "w") as file:
                file.write(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    time.sleep(0.002)
    return x
proveout.benchmark(model, 1, duration=1, n_models=1, workers_per_model=1, verbosity=0, warmup=0)
"""


def detached_by_a_benchmark(folder: Path, rng: random.Random) -> Try:
    """A model under benchmark detaches a process: it ends with the worker."""
    subprocess.run([sys.executable, "-c", ESCAPES], capture_output=True, timeout=300, cwd=folder)
    began, pid = time.monotonic(), (folder / "pid").read_text()
    while is_alive(pid) and time.monotonic() - began < 5:
        time.sleep(0.01)
    return Try(int(is_alive(pid)), time.monotonic() - began)


def is_alive(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def lost_node(folder: Path, rng: random.Random) -> Try:
    """A node of a Ray cluster dies in the middle of a sweep: no Record and no Job is lost."""
    test = ROOT / "tests" / "e2e" / "test_ray.py"
    words = ["-q", "-p", "no:cacheprovider", str(test), "-k", "a_node_lost_in_the_middle"]
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True)
    if "skipped" in done.stdout:
        raise Unavailable("Ray is not installed here")
    return Try(int(done.returncode != 0), time.monotonic() - began, done.stdout[-500:])


def filled_disk(folder: Path, rng: random.Random) -> Try:
    """A script of a sweep fills the disk of the temporary files: it fails alone."""
    with small_disk(folder, 256 << 10) as disk:
        fills = (
            "import tempfile, time\nf = tempfile.TemporaryFile()\nwhile True: f.write(bytes(1 << 20)); time.sleep(0.01)"
        )
        (folder / "fills.py").write_text(fills)
        words = ["benchmark", "fills.py", *scripts(folder), "--device", "sim", "--iterations", "2"]
        began = time.monotonic()
        done = subprocess.run(
            command(folder, *words),
            cwd=folder,
            env={**os.environ, "TMPDIR": str(disk)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        told = "filled the disk" in done.stdout + done.stderr
        lost = max(0, SCRIPTS - len(kept(folder))) + ("Traceback" in done.stderr) + (not told)
        return Try(lost, time.monotonic() - began, done.stderr[-500:])


FAULTS: dict[str, tuple[Callable[[Path, random.Random], Try], float]] = {
    "a sweep is killed (kill -9) at any moment, and run again": (killed_sweep, 1),
    "its workers are killed one after the other": (killed_workers, 1),
    "two sweeps write to one cache": (two_sweeps, 1),
    "a node of a Ray cluster dies in a sweep": (lost_node, 0.4),
    "a process is killed while it writes Records": (interrupted_writes, 4),
    "one of 1,000 Records is garbage": (one_in_a_thousand, 2),
    "the cache is removed while it is written": (store_removed, 4),
    "files from 1970 and from the future": (clock_jumps, 4),
    "the clock jumps by hours and decades during a sweep": (clock_of_a_sweep_jumps, 0.4),
    "the cache cannot be written": (unwritable, 0.4),
    "the cache is on a disk that can only be read": (read_only_cache, 0.4),
    "the disk is full at every write of a Record": (full_disk, 4),
    "the disk is full at some write of a sweep": (full_disk_in_a_sweep, 1),
    "the disk is full at every write of a compiled graph": (full_disk_of_graphs, 0.4),
    "a script fills the disk": (filled_disk, 0.4),
    "a model leaks until its limit": (leaking_model, 0.4),
    "compiled graphs in the cache are damaged": (cache_of_graphs, 1),
    "a process is killed while it compiles": (killed_compile, 1),
    "bring-up is killed in each of its stages": (killed_bringup, 0.2),
    "a benchmark is killed, and recovered": (killed_benchmark, 1),
    "a benchmark's worker is killed": (killed_benchmark_worker, 1),
    "a benchmarked model detaches a process": (detached_by_a_benchmark, 1),
    "the app's server is ended and started again": (killed_app, 0.4),
}
"""What is broken, and how many times as often it is tried as the first."""


@dataclasses.dataclass(frozen=True)
class Row:
    """What became of one fault. `noticed` says why it could not be tried, where tries is 0."""

    tries: int
    losses: int
    noticed: str
    day: str


def try_fault(name: str, tries: int) -> Row:
    fault, times = FAULTS[name]
    outcomes: list[Try] = []
    reason = ""
    for seed in range(max(1, round(tries * times))):
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            try:
                outcomes.append(fault(Path(folder), random.Random(seed)))
            except Unavailable as error:
                reason = str(error)
                break
    for outcome in outcomes:
        if outcome.lost:
            print(f"LOST: {name}: {outcome.why}", file=sys.stderr)
    longest = max((outcome.noticed_s for outcome in outcomes), default=0.0)
    losses = sum(outcome.lost for outcome in outcomes)
    return Row(len(outcomes), losses, reason or f"{longest:.2g} s", datetime.date.today().isoformat())


def read_rows() -> dict[str, Row]:
    """The rows kept, of faults that there still are, in the order of FAULTS."""
    kept_rows = json.loads(ROWS.read_text()) if ROWS.exists() else {}
    return {name: Row(**kept_rows[name]) for name in FAULTS if name in kept_rows}


def keep_row(name: str, row: Row) -> None:
    rows = {**read_rows(), name: row}
    ROWS.write_text(json.dumps({name: dataclasses.asdict(rows[name]) for name in FAULTS if name in rows}, indent=1))
    PAGE.write_text(page(read_rows()))


def page(rows: dict[str, Row]) -> str:
    missing = [name for name in FAULTS if name not in rows]
    lines = [
        "# What breaks, and what is lost",
        "",
        "`make faults` makes this table: everything is broken for real, as often as it says, at random moments. A loss",
        "is a finished result that is gone or damaged, a traceback, or a wrong number. *Noticed within* is the longest",
        "time until the next command had noticed or repaired it, on the machine and under the load that it was made.",
        "Rows can be made one by one (`python tests/faults/faults.py --rows WORD`), so each has its day.",
        "",
        *(["Not tried yet: " + "; ".join(missing) + ".", ""] if missing else []),
        "| fault | tries | losses | noticed within | tried on |",
        "|---|---:|---:|---:|---|",
        *(f"| {name} | {row.tries} | {row.losses} | {row.noticed} | {row.day} |" for name, row in rows.items()),
        "",
        "More ways to break a benchmark are in `tests/unit/test_benchmark_faults.py`.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Break things on purpose, and count what is lost.")
    parser.add_argument("--tries", type=int, default=5, help="how often the first fault is tried (default: 5)")
    parser.add_argument("--rows", nargs="+", metavar="WORD", help="only the faults whose name has one of these words")
    parser.add_argument("--missing", action="store_true", help="only the faults of which no row is kept")
    options = parser.parse_args()
    names = [name for name in FAULTS if not options.rows or any(word in name for word in options.rows)]
    names = [name for name in names if not (options.missing and name in read_rows())]
    if options.rows and not names:
        parser.error(f"no fault's name has {' or '.join(options.rows)}. The faults: {'; '.join(FAULTS)}")
    losses = 0
    for name in names:
        row = try_fault(name, options.tries)
        losses += row.losses
        keep_row(name, row)
        print(f"{name}: {row.tries} tries, {row.losses} losses, {row.noticed}", flush=True)
    return int(losses > 0)


if __name__ == "__main__":
    sys.exit(main())
