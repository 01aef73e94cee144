"""What measuring costs, every row measured beside a bare loop in one run: `python tests/bench/harness.py [-o FILE]`.

Ours and bare take turns, and a row is the median of their ratios, so that a machine that slows down slows both. Other
work on the machine still shows: /proc/pressure/cpu is printed, and above 10 % the rows that need quiet are not judged.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

import numpy as np
import torch

import proveout
from proveout.clock import histogram, loops, stamps
from proveout.clock.conditions import cpu_pressure
from proveout.clock.loops import Caller
from proveout.measure import runs
from proveout.measure.grid import usable_cores
from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.reports import reports
from proveout.serving import Configuration

clock = time.perf_counter_ns
QUIET = 10.0
Rows = list[dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, help="keep the rows as JSON")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    before = cpu_pressure()
    rows: Rows = []
    for name, target, better, row in ROWS:
        if arguments.only not in name:
            continue
        found = float(row(arguments.repeats))
        passed = JUDGES[better](found, target)
        rows.append({"row": name, "found": found, "target": target, "better": better, "passed": passed})
        print(f"{'ok  ' if passed else 'MISS'} {name:58} {found:10.4g}   {better} {target}", flush=True)
    after = cpu_pressure()
    pressure = max(p for p in (before, after, 0.0) if p is not None)
    quiet = pressure <= QUIET
    print(f"/proc/pressure/cpu: some {before} % before, {after} % after (10 s averages)")
    if not quiet:
        print("This machine is busy: misses of the rows above may be other processes'. Run again when it is quiet.")
    if arguments.output:
        document = {"rows": rows, "pressure_before": before, "pressure_after": after, "cores": usable_cores()}
        arguments.output.write_text(json.dumps(document, indent=1))
    return int(quiet and not all(row["passed"] for row in rows))


# ------------------------------------------------------------------------- one worker's loop beside a bare one


def bare_two_stamps(call: Callable[[Any], Any], x: Any, calls: int) -> float:
    starts, ends = [0] * calls, [0] * calls
    now = clock
    began = now()
    for i in range(calls):
        starts[i] = now()
        call(x)
        ends[i] = now()
    return (now() - began) / calls


def bare_untimed(call: Callable[[Any], Any], x: Any, calls: int) -> float:
    began = clock()
    for _ in range(calls):
        call(x)
    return (clock() - began) / calls


def ours(call: Callable[[Any], Any], x: Any, calls: int, two_stamps: bool = False) -> float:
    """The loop of a worker with its file, in this process."""
    source = itertools.repeat(((x,), {})) if two_stamps else None
    caller = Caller(call, None if two_stamps else ((x,), {}), source)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "stamps")
        writer = stamps.StampWriter(path, caller.columns)
        began = clock()
        loops.measure(caller, writer, start_ns=began, deadline_ns=1 << 62, limit=calls)
        spent = clock() - began
        writer.close()
        assert len(stamps.read_calls(path, caller.columns).ends_ns) == calls
    return spent / calls


def ratio(bare: Callable[[], float], mine: Callable[[], float], repeats: int) -> float:
    """Bare time over ours, both in turns: the share of a bare loop's speed that is left."""
    found = []
    for turn in range(repeats):
        pair = (bare(), mine()) if turn % 2 else (mine(), bare())[::-1]
        found.append(pair[0] / pair[1])
    return statistics.median(found)


def nothing(x: Any) -> None:
    return None


def layers() -> torch.nn.Module:
    parts = [part for _ in range(4) for part in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
    return torch.nn.Sequential(*parts).eval()


def no_op(repeats: int) -> float:
    calls = 300_000
    return ratio(lambda: bare_two_stamps(nothing, 1, calls), lambda: ours(nothing, 1, calls), repeats)


def linear(two_stamps: bool) -> Callable[[int], float]:
    def row(repeats: int) -> float:
        model, x = torch.nn.Linear(8, 8).eval(), torch.randn(1, 8)
        with torch.no_grad():
            ours(model, x, 2000)
            calls = 30_000
            return ratio(lambda: bare_untimed(model, x, calls), lambda: ours(model, x, calls, two_stamps), 3 * repeats)

    return row


def four_layers(repeats: int) -> float:
    model, x = layers(), torch.randn(8, 512)
    with torch.no_grad():
        ours(model, x, 200)
        return ratio(lambda: bare_untimed(model, x, 500), lambda: ours(model, x, 500), 3 * repeats)


# ------------------------------------------------------------------------------------------- whole benchmarks

BARE_PROCESS = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*[p for _ in range(4) for p in (torch.nn.Linear(512, 512), torch.nn.ReLU())]).eval()
x = torch.randn(8, 512)
with torch.no_grad():
    for _ in range(200): model(x)
    print("ready", flush=True)
    sys.stdin.readline()
    calls, began = 0, time.perf_counter()
    until = began + float(sys.argv[1])
    while time.perf_counter() < until:
        model(x)
        calls += 1
    print(calls / (time.perf_counter() - began))
"""


def bare_processes(number: int, duration: float) -> float:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", BARE_PROCESS, str(duration)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(number)
    ]
    for process in started:
        process.stdout.readline()
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    return sum(float(process.communicate()[0]) for process in started)


def ours_processes(number: int, duration: float, threads: str = "1") -> float:
    before = os.environ.pop("OMP_NUM_THREADS", None)
    if threads:
        os.environ["OMP_NUM_THREADS"] = threads
    try:
        (outcome,) = proveout.benchmark(
            layers(), torch.randn(8, 512), n_models=number, workers_per_model=1, duration=duration, warmup=200,
            return_timers=True, verbosity=0,
        )  # fmt: skip
    finally:
        os.environ["OMP_NUM_THREADS"] = before or "1"
    assert outcome.status == "passed", outcome.reason
    return sum(len(w.ends_ns) for w in outcome.workers) / (outcome.ended_ns - outcome.started_ns) * 1e9


def processes(repeats: int) -> float:
    number = usable_cores()
    found = []
    for turn in range(max(5, repeats // 2)):
        order = (bare_processes, ours_processes) if turn % 2 else (ours_processes, bare_processes)
        speeds = {run.__name__: run(number, 1.0) for run in order}
        found.append(speeds["ours_processes"] / speeds["bare_processes"])
    return statistics.median(found)


def automatic_threads(repeats: int) -> float:
    number = usable_cores()
    found = []
    for turn in range(max(5, repeats // 2)):
        order = ("", "1") if turn % 2 else ("1", "")
        speeds = {threads: ours_processes(number, 1.0, threads) for threads in order}
        found.append(speeds[""] / speeds["1"])
    return statistics.median(found)


def measured_phase(repeats: int) -> float:
    """The largest deviation from the duration asked for, as a share."""
    found = []
    for _ in range(max(3, repeats // 2)):
        (outcome,) = proveout.benchmark(
            layers(),
            torch.randn(8, 512),
            n_models=1,
            workers_per_model=1,
            duration=1.0,
            return_timers=True,
            verbosity=0,
        )
        found.append(abs((outcome.ended_ns - outcome.started_ns) / 1e9 - 1.0))
    return max(found)


def controller_share(repeats: int) -> float:
    """Processor time of this process for each second that its workers measure, in percent of a core."""

    def spent(duration: float) -> float:
        before = resource.getrusage(resource.RUSAGE_SELF)
        proveout.benchmark(
            lambda x: time.sleep(0.001), 1, n_models=2, workers_per_model=1, duration=duration, warmup=1,
            return_timers=True, verbosity=0,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_SELF)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    spent(0.1)
    found = [(spent(3.0) - spent(0.5)) / 2.5 * 100 for _ in range(3)]
    return statistics.median(found)


def stall(repeats: int) -> float:
    """How far throughput is from what the model itself counted, as a share."""
    starts: list[int] = []
    ends: list[int] = []

    def model(x: Any) -> None:
        starts.append(clock())
        time.sleep(4.0 if len(ends) == 700 else 0.001)
        ends.append(clock())

    (report,) = proveout.benchmark(
        lambda: model, 1, n_models=1, workers_per_model=1, duration=2.0, warmup=0, multiprocess=False, verbosity=0
    )
    truth = len(ends) / ((ends[-1] - starts[0]) / 1e9)
    return abs(report["throughput_avg"] / truth - 1)


# ----------------------------------------------------------------------------------------- samples and numbers


def bytes_a_sample(repeats: int) -> float:
    calls = 1_000_000
    caller = Caller(nothing, ((1,), {}))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "stamps")
        writer = stamps.StampWriter(path, caller.columns)
        loops.measure(caller, writer, start_ns=clock(), deadline_ns=1 << 62, limit=calls)
        writer.close()
        return path.stat().st_size / calls


def histogram_growth(repeats: int) -> float:
    """Size of a histogram's file after a million calls, of that after ten."""
    sizes = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for calls in (10, 1_000_000):
            path = Path(folder, str(calls))
            writer = histogram.HistogramWriter(path)
            loops.measure(Caller(nothing, ((1,), {})), writer, start_ns=clock(), deadline_ns=1 << 62, limit=calls)
            sizes.append(path.stat().st_size)
    return sizes[1] / sizes[0]


def harvest(repeats: int) -> float:
    """Processor seconds from the file of 10 M samples to its report."""
    count = 10_000_000
    rng = np.random.default_rng(0)
    ends = np.cumsum((1e6 * rng.lognormal(0, 0.3, count)).astype(np.int64)) + 1
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "model0-worker0.stamps")
        np.concatenate([[-1], ends]).astype(np.int64).tofile(path)
        found = []
        for _ in range(3):
            began = time.process_time()
            (worker,) = runs.worker_runs(Path(folder), ("end",), [1])
            outcome = Outcome(Configuration("m"), "passed", "", (worker,), 1, int(ends[-1]))
            (report,) = reports([outcome])
            found.append(time.process_time() - began)
            assert report["total_calls"] == count
    assert isinstance(worker, WorkerRun)
    return statistics.median(found)


def coverage(repeats: int) -> float:
    """Share of simulated runs, neighbours alike, whose 95 % interval of the mean holds the truth."""
    from noise_model import MEDIAN_NS, calls

    from proveout.clock import summarise

    rng, simulated = np.random.default_rng(1), 1000
    truth = MEDIAN_NS * np.exp(0.1**2 / 2)
    held = 0
    for _ in range(simulated):
        mean = summarise(calls(rng, (2000,), coefficient=0.5, stalls=0.0), (50.0,)).mean_ns
        held += mean.low <= truth <= mean.high
    return held / simulated


JUDGES: dict[str, Callable[[float, Any], bool]] = {
    "at least": lambda found, target: found >= target,
    "at most": lambda found, target: found <= target,
    "within": lambda found, target: target[0] <= found <= target[1],
}
ROWS: list[tuple[str, float | tuple[float, float], str, Callable[[int], float]]] = [
    ("no-op, of a bare loop with two stamps", 0.80, "at least", no_op),
    ("Linear(8,8) batch 1, two stamps, of an untimed loop", 0.93, "at least", linear(two_stamps=True)),
    ("Linear(8,8) batch 1, closed loop, of an untimed loop", 0.95, "at least", linear(two_stamps=False)),
    ("4 x (Linear 512 + ReLU) batch 8, of an untimed loop", 0.99, "at least", four_layers),
    ("processes, one a core, of as many bare ones", 0.95, "at least", processes),
    ("bytes a raw sample", 16, "at most", bytes_a_sample),
    ("memory of a histogram, 1 M calls over 10", 1, "at most", histogram_growth),
    ("harvest and report of 10 M samples, processor s", 1.0, "at most", harvest),
    ("controller while measuring, % of a core", 1.0, "at most", controller_share),
    ("measured phase, deviation from its duration", 0.01, "at most", measured_phase),
    ("throughput with a 4 s stall, deviation", 0.001, "at most", stall),
    ("automatic threads, of one thread a process", 0.98, "at least", automatic_threads),
    ("95 % interval, coverage when simulated", (0.93, 0.97), "within", coverage),
]


if __name__ == "__main__":
    sys.exit(main())
