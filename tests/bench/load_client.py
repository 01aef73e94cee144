"""What the client of served models costs and how true it is: `python tests/bench/load_client.py [-o FILE]`.

A scripted endpoint in a process of its own answers with known delays. Rows: times within 1 % of the script's, a stall
charged to those that waited, 200 streamed requests/s of 16 tokens at no more than a quarter of a core, and requests
sent at most 1 ms late (p99). Other work on the machine still shows: /proc/pressure/cpu is printed, and above 10 %
nothing is judged.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from proveout.clock.conditions import cpu_pressure
from proveout.load.client import Client
from proveout.load.endpoint import Endpoint, endpoint
from proveout.load.exchange import Run
from proveout.load.figures import times
from proveout.measure.arrivals import poisson

SERVER = Path(__file__).parents[1] / "unit" / "scripted_endpoint.py"
FIRST_S, GAP_S, TOKENS = 0.2, 0.02, 16
RATE = 200.0
QUIET = 10.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=Path, help="keep the rows as JSON")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    before = cpu_pressure()
    with served() as target:
        true = load(target, 20.0, arguments.seconds)
        busy = load(target, RATE, arguments.seconds)
    with served(stall=(1.0, 3.0)) as target:
        stalled = load(target, 50.0, 4.0)
    rows = [
        ("TTFT, median ÷ the script's", ratio(true, "ttft", FIRST_S), 0.99, 1.01),
        ("TPOT, median ÷ the script's", ratio(true, "tpot", GAP_S), 0.99, 1.01),
        ("response, median ÷ the script's", ratio(true, "latency", FIRST_S + (TOKENS - 1) * GAP_S), 0.99, 1.01),
        ("a stall's wait, felt ÷ due", waited(stalled, 1.0, 3.0), 0.99, 1.01),
        (f"requests answered at {RATE:g}/s, share", len(busy.answered) / len(busy.exchanges), 1.0, 1.0),
        (f"client at {RATE:g}/s × {TOKENS} tokens, share of a core", busy.cpu_share or 0.0, 0.0, 0.25),
        (f"sent late at {RATE:g}/s, p99 in ms", float(np.percentile(times(busy, "late"), 99)) / 1e6, 0.0, 1.0),
        (f"sent late at {RATE:g}/s, p50 in ms", float(np.percentile(times(busy, "late"), 50)) / 1e6, 0.0, 1.0),
    ]
    for name, value, low, high in rows:
        print(f"{'ok  ' if low <= value <= high else 'MISS'} {name:50} {value:10.4g}   {low:g} … {high:g}")
    after = cpu_pressure()
    pressure = max(p for p in (before, after, 0.0) if p is not None)
    print(f"/proc/pressure/cpu: some {before} % before, {after} % after (10 s averages)")
    if pressure > QUIET:
        print("This machine is busy: misses of the rows above may be other processes'. Run again when it is quiet.")
    if arguments.output:
        kept = [{"row": n, "value": v, "low": low, "high": high} for n, v, low, high in rows]
        arguments.output.write_text(json.dumps({"rows": kept, "pressure": [before, after]}, indent=1))
    return int(pressure <= QUIET and not all(low <= value <= high for _, value, low, high in rows))


@contextmanager
def served(stall: tuple[float, float] | None = None) -> Iterator[Endpoint]:
    command = [sys.executable, str(SERVER), str(FIRST_S), str(GAP_S), str(TOKENS), *map(str, stall or ())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield endpoint(f"http://127.0.0.1:{int(server.stdout.readline())}")
        server.stdin.close()


def load(target: Endpoint, rate: float, seconds: float) -> Run:
    request = target.request(target.body("scripted", "a prompt of a few words", TOKENS, {}))
    intended = poisson(rate, seconds, seed=1)
    return Client(target).run(intended, [request] * len(intended))


def ratio(run: Run, name: str, seconds: float) -> float:
    return float(np.median(times(run, name))) / 1e9 / seconds


def waited(run: Run, begin_s: float, end_s: float) -> float:
    """Of requests due in the stall: the sum of their times to first token ÷ what the script makes them wait."""
    begun = min(e.sent_ns for e in run.exchanges)
    rows = [(e.intended_ns - begun, e.first_ns or 0) for e in run.exchanges]
    inside = [(due / 1e9, felt / 1e9) for due, felt in rows if begin_s < due / 1e9 + FIRST_S < end_s]
    return sum(felt for _, felt in inside) / sum(end_s - due for due, _ in inside)


if __name__ == "__main__":
    raise SystemExit(main())
