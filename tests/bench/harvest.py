"""How long it takes to summarise, to judge and to report 10 M samples: `python tests/bench/harvest.py`.

The aim is 1 s for each (100 ns a sample), in processor time: other work on the machine does not count, except that it
takes the caches. The verdict holds a summary and adds the search for warm-up, drift and modes; the report holds the
verdict and adds throughput with its interval, the time series and the distribution.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from proveout.clock import judge, summarise
from proveout.measure.outcome import Outcome, WorkerRun
from proveout.measure.reports import reports
from proveout.serving import Configuration

SAMPLES, LIMIT_S, REPEATS = 10_000_000, 1.0, 5


def main() -> int:
    rng = np.random.default_rng(0)
    usual = (1e6 * rng.lognormal(0, 0.3, SAMPLES)).astype(np.int64)
    wide = usual.copy()
    wide[:: SAMPLES // 10] += 5_000_000_000
    slow = False
    for words, samples in (("times within 4 s", usual), ("some of 5 s", wide)):
        spent = _median(lambda samples=samples: summarise(samples))
        slow |= spent >= LIMIT_S
        print(f"{SAMPLES:,} {words}: summary {spent:.2f} s, {spent / SAMPLES * 1e9:.0f} ns a sample", end="; ")
        print(f"verdict {_median(lambda samples=samples: judge(samples)):.2f} s", end="; ")
        outcome = _outcome(samples)
        told = _median(lambda outcome=outcome: reports([outcome]))
        slow |= told >= LIMIT_S
        print(f"report {told:.2f} s")
    return int(slow)


def _outcome(samples: np.ndarray) -> Outcome:
    """Two workers in a closed loop."""
    workers = []
    for index in range(2):
        times = samples[index::2]
        ends = np.cumsum(times)
        workers.append(WorkerRun(index, index, starts_ns=ends - times, ends_ns=ends))
    last = max(int(w.ends_ns[-1]) for w in workers)
    return Outcome(Configuration("net", n_models=2), "passed", workers=tuple(workers), ended_ns=last)


def _median(function: Callable[[], object]) -> float:
    spent = []
    for _ in range(REPEATS):
        started = time.process_time()
        function()
        spent.append(time.process_time() - started)
    return sorted(spent)[REPEATS // 2]


if __name__ == "__main__":
    sys.exit(main())
