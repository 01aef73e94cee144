"""How much the embedded chip costs over eager bfloat16 on the same CPU: `python tests/bench/sim_vs_eager.py [MODEL…]`.

Interleaved rounds in one process, medians, one ratio a model, and what our own compile stages cost per ATen node.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from zoo import BIG

import proveout
from proveout import vision

vision.serve()  # transformers imports torchvision, which cannot be imported beside a CPU build of torch otherwise
ROUNDS, CALLS = 9, 5
TARGETS = {"bert_4x256": 1.3}


def per_call(function) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - started) / CALLS


def measure(name: str) -> dict[str, float]:
    torch._dynamo.reset()
    model, inputs = BIG[name]()
    compiled = proveout.compile(model, inputs, settings={"precision": "bfloat16"})
    eager = BIG[name]()[0].to(torch.bfloat16)
    halves = {k: v.to(torch.bfloat16) if v.is_floating_point() else v for k, v in inputs.items()}
    with torch.no_grad():
        runs = {"eager": lambda: eager(**halves), "sim": lambda: compiled(**inputs)}
        samples = {key: [] for key in runs}
        for run in runs.values():
            per_call(run)
        for _ in range(ROUNDS):
            for key, run in runs.items():
                samples[key].append(per_call(run))
    ms = {key: statistics.median(s) * 1e3 for key, s in samples.items()}
    stages = sum(seconds for stage, seconds in compiled.stages_s if stage not in ("load", "save")) * 1e3
    per_node = stages / compiled.coverage.before
    return {**ms, "ratio": ms["sim"] / ms["eager"], "target": TARGETS.get(name, 1.15), "compile_ms_per_node": per_node}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(BIG))
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    results = {}
    print(f"{'model':12} {'eager bf16 ms':>14} {'sim fast ms':>12} {'ratio':>7} {'target':>7} {'compile ms/node':>16}")
    for name in arguments.models:
        r = results[name] = measure(name)
        print(
            f"{name:12} {r['eager']:14.2f} {r['sim']:12.2f} {r['ratio']:7.3f} {r['target']:7.2f}"
            f" {r['compile_ms_per_node']:16.2f}"
        )
    print("all measured on this machine's CPU, in one process, interleaved")
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
