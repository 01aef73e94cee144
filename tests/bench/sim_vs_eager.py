"""How much the embedded chip costs over eager bfloat16 on the same CPU: `python tests/bench/sim_vs_eager.py`.

Interleaved rounds in one process, medians, one ratio. Target: at most 1.3 for a BERT of 4 layers x 256.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from zoo import BIG

import proveout

ROUNDS, CALLS, TARGET = 15, 10, 1.3


def per_call(function) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - started) / CALLS


def main() -> None:
    model, inputs = BIG["bert_4x256"]()
    compiled = proveout.compile(model, inputs, settings={"precision": "bfloat16"})
    eager = BIG["bert_4x256"]()[0].to(torch.bfloat16)
    with torch.no_grad():
        runs = {"eager bf16": lambda: eager(**inputs), "sim fast": lambda: compiled(**inputs)}
        for run in runs.values():
            per_call(run)
        samples = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                samples[name].append(per_call(run))
    median = {name: statistics.median(s) * 1e3 for name, s in samples.items()}
    ratio = median["sim fast"] / median["eager bf16"]
    for name, value in median.items():
        print(f"{name:12} {value:8.3f} ms a call (measured, median of {ROUNDS} rounds)")
    print(f"ratio        {ratio:8.3f}   target <= {TARGET}")
    Path("sim_vs_eager.json").write_text(json.dumps({"ratio": ratio, "target": TARGET, "ms": median}, indent=1))


if __name__ == "__main__":
    main()
