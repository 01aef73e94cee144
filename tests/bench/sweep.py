"""Sweeps 500 tiny scripts on one core and on two: `python tests/bench/sweep.py [SCRIPTS]`.

Within one run: half the scripts with `--jobs 1` on one core, all processes of the sweep, and half with `--jobs 2` on
two, in turns, so that what else the machine does falls on both. Scaling is the time on one core over twice the time on
two; the aim is 0.9. The controller's largest
resident size must stay below 300 MB and must not grow with the number of scripts. Prints JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SCRIPTS, ROUNDS = 500, 4
LIMIT_MB, AIM = 300.0, 0.9
SCRIPT = "import torch\nmodel = torch.nn.Linear({width}, {height})\nmodel(torch.ones(1, {width}))\n"


def main(scripts: int = SCRIPTS) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        part = scripts // (2 * ROUNDS)
        seconds: dict[int, list[float]] = {1: [], 2: []}
        sizes: list[tuple[float, float]] = []
        for turn in range(2 * ROUNDS):
            jobs = 1 + (turn + turn // 2) % 2  # 1 2 2 1 1 2 2 1: a drift falls on both alike
            made = _write(folder / f"part{turn}", part, turn)
            spent, *size = _sweep(made, jobs, folder / "cache")
            seconds[jobs].append(spent)
            sizes.append((size[0], size[1]))
        _, *whole = _sweep(folder, 2, folder / "cache")  # all of them, from the cache: the most that is held at once
        sizes.append((whole[0], whole[1]))
    one, two = (sum(seconds[jobs]) for jobs in (1, 2))
    result = {
        "scripts": part * 2 * ROUNDS,
        "cores": len(os.sched_getaffinity(0)),
        "seconds_on_one_core": round(one, 2),
        "seconds_on_two_cores": round(two, 2),
        "of_ideal_scaling": round(one / two / 2, 3),
        "jobs_a_second": [round((part - 1) * ROUNDS / spent, 2) for spent in (one, two)],
        "controller_mb": round(max(size for _, size in sizes), 1),
        "controller_growth_mb": round(max(size - first for first, size in sizes), 1),
    }
    print(json.dumps(result, indent=1))
    return int(result["of_ideal_scaling"] < AIM or result["controller_mb"] > LIMIT_MB)


def _write(folder: Path, count: int, turn: int) -> Path:
    folder.mkdir()
    for number in range(count):
        width, height = 8 + turn, 8 + number
        (folder / f"tiny{turn}_{number}.py").write_text(SCRIPT.format(width=width, height=height))
    return folder


def _sweep(folder: Path, jobs: int, cache: Path) -> tuple[float, float, float]:
    """Seconds from the first Record to the last, and the controller's resident size in MB at first and at most."""
    words = ["check", str(folder), "--jobs", str(jobs), "--cache-dir", str(cache), "--json"]
    environment = {**os.environ, "PROVEOUT_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    cores = sorted(os.sched_getaffinity(0))[:jobs]
    command = [sys.executable, "-c", "import sys; from proveout.cli import main; sys.exit(main())", *words]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    times, sizes = list[float](), list[float]()

    def watch() -> None:
        assert child.stderr is not None
        for line in child.stderr:
            if line.startswith("["):
                times.append(time.monotonic())
                sizes.append(_resident_mb(child.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert child.stdout is not None
    answer = json.loads(child.stdout.read())
    code = child.wait()
    watcher.join()
    assert code == 0, answer
    early = sizes[: max(1, len(sizes) // 10)]
    return times[-1] - times[0], max(early), max(sizes)


def _resident_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS")), 0.0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
