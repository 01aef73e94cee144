"""How long it takes to summarise and to judge 10 M samples: `python tests/bench/harvest.py`.

The aim is 1 s for a summary with its intervals (100 ns a sample), in processor time: other work on the machine does not
count. The verdict holds a summary and adds the search for warm-up, drift and modes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from proveout.measure import judge, summarise

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
        print(f"verdict {_median(lambda samples=samples: judge(samples)):.2f} s")
    return int(slow)


def _median(function: Callable[[], object]) -> float:
    spent = []
    for _ in range(REPEATS):
        started = time.process_time()
        function()
        spent.append(time.process_time() - started)
    return sorted(spent)[REPEATS // 2]


if __name__ == "__main__":
    sys.exit(main())
