"""Thousands of small functions and their gradients against eager, on any machine with torch; no pytest is needed:

    python tests/fuzz/long.py --start 30000 --jobs 16 --minutes 6

Seeds START, START + 1 … go forward and backward until all or the minutes are over. A line of JSON for each finding,
with the seed that repeats it and the function's text; the counts last. The exit status is 1 if any of it is ours."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")  # before torch: processes are forked from this one
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]

import torch
from against_eager import TOLERANCE, WAYS, differences, pytorchs_own
from small_programs import source

SEED_LIMIT_S, SEED_LIMIT_WAITING_S = 60, 900
"""Of a processor's time, and of the clock's: a busy machine is no finding."""
CHUNK = 40
"""Seeds of one process: what a process that dies takes with it, and what its compiler may keep in memory."""


@dataclass
class Worker:
    """A forked process and the seeds that it has yet to answer."""

    process: Any
    answers: Connection
    way: str
    seeds: deque[int]
    since: float = field(default_factory=time.monotonic)
    processor_s: float = 0.0
    """What its process had used when its seed began."""


def processor_s(pid: int) -> float:
    """Seconds of a processor that a process has used."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answer(seeds: list[int], device: str, way: str, answers: Connection) -> None:
    """The seeds of one process: why each is not eager's, and whether PyTorch alone is as far off."""
    torch.set_num_threads(1)
    for seed in seeds:
        try:
            why = differences(seed, device, way)
            own = bool(why) and pytorchs_own(seed, device, way)
        except Exception as error:
            why, own = f"{type(error).__name__}: {error}", False
        answers.send((why, own))


def start(seeds: list[int], device: str, way: str) -> Worker:
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=answer, args=(seeds, device, way, there), daemon=True)
    process.start()
    there.close()
    return Worker(process, here, way, deque(seeds))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many, forward and backward each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--device", choices=TOLERANCE, default="cpu")
    parser.add_argument("--way", choices=WAYS, action="append", help="one of the two ways only")
    options = parser.parse_args()
    began = time.monotonic()
    deadline = began + 60 * options.minutes
    end = options.start + options.seeds
    ways = options.way or list(WAYS)
    parts = [(w, list(range(s, min(s + CHUNK, end)))) for s in range(options.start, end, CHUNK) for w in ways]
    waiting = deque(parts)
    workers: list[Worker] = []
    counts = {way: {"seeds": 0, "findings": 0, "pytorchs_own": 0} for way in ways}

    def tell(worker: Worker, why: str, own: bool) -> None:
        seed = worker.seeds.popleft()
        count = counts[worker.way]
        count["seeds"] += 1
        if why:
            count["pytorchs_own" if own else "findings"] += 1
        if why and not own:
            print(json.dumps({"way": worker.way, "seed": seed, "why": why, "source": source(seed)}), flush=True)

    def end_of(worker: Worker, why: str) -> None:
        """It died or hangs: that is its seed's fault, and the rest is another process's."""
        worker.process.kill()
        worker.process.join()
        workers.remove(worker)
        if worker.seeds:
            tell(worker, why or f"the process ended with {worker.process.exitcode}", False)
        if worker.seeds:
            waiting.appendleft((worker.way, list(worker.seeds)))

    differences(0, options.device, "backward")  # what a first compile imports is shared by all processes
    while (waiting or workers) and time.monotonic() < deadline:
        while waiting and len(workers) < options.jobs:
            way, seeds = waiting.popleft()
            workers.append(start(seeds, options.device, way))
        ready = wait([worker.answers for worker in workers], timeout=1)
        for worker in list(workers):
            if worker.answers in ready:
                try:
                    tell(worker, *worker.answers.recv())
                    worker.since, worker.processor_s = time.monotonic(), processor_s(worker.process.pid)
                except EOFError:
                    end_of(worker, "")
            elif processor_s(worker.process.pid) - worker.processor_s > SEED_LIMIT_S:
                end_of(worker, f"over {SEED_LIMIT_S} s of a processor")
            elif time.monotonic() - worker.since > SEED_LIMIT_WAITING_S:
                end_of(worker, f"over {SEED_LIMIT_WAITING_S} s")
    for worker in workers:
        worker.process.kill()
    summary = {**counts, "start": options.start, "wanted": options.seeds, "torch": torch.__version__}
    print(json.dumps({**summary, "seconds": round(time.monotonic() - began)}))
    return 1 if any(count["findings"] for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
