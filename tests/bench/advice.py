"""What advice predicts beside what it saves: `python tests/bench/advice.py [NAME…] [--start …]`.

BERT-Base, ResNet-50, ViT-Base and GPT-2 (true size, seeded weights) on sim:n150, each from three starts: as compiled,
in a trace, and in a trace with results in DRAM. Each change that a setting makes is predicted from the recorded
Programs alone, then the model is compiled anew under it. Modelled times on both sides. Exits with 1 where fewer than
90 % of the predictions are within 20 %.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from tune import MODELS

from proveout import recording
from proveout.engine.compiled import compile
from proveout.report.perf.advice import Advice, advise, call_ns, predicted_ns
from proveout.types import Settings

NEAR, OFTEN = 0.2, 0.9
STARTS = {
    "as compiled": Settings(precision="bfloat16"),
    "traced": Settings(precision="bfloat16", trace=True),
    "traced, in DRAM": Settings(precision="bfloat16", trace=True, memory="dram"),
}


def savings(name: str, start: Settings, small: bool) -> list[tuple[Advice, int, int]]:
    """(change, ns predicted, ns realised), each change alone, as `proveout perf --apply` makes it."""
    torch.manual_seed(0)
    module, inputs = MODELS[name](small)
    model = module.eval()
    with tempfile.TemporaryDirectory() as folder:
        compile(model, inputs, device="sim:n150", settings=start, record=Path(folder))
        recorded = recording.load(Path(folder))
    out = []
    for advice in advise(recorded):
        again = compile(model, inputs, device="sim:n150", settings=replace(start, **advice.settings), dry_run=True)
        predicted, realised = predicted_ns(recorded, [advice]), again.plan.total_ns
        out.append((advice, call_ns(recorded) - predicted, call_ns(recorded) - realised))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--small", action="store_true", help="few narrow layers of each")
    parser.add_argument("--start", nargs="*", choices=list(STARTS), default=list(STARTS))
    options = parser.parse_args()
    near = total = 0
    print(f"{'model':10} {'start':16} {'predicted µs':>12} {'realised µs':>12} {'off':>6}  change")
    for name in options.names:
        for start in options.start:
            for advice, predicted, realised in savings(name, STARTS[start], options.small):
                off = abs(predicted - realised) / max(abs(realised), 1)
                near, total = near + (off <= NEAR), total + 1
                figures = f"{predicted / 1e3:12.1f} {realised / 1e3:12.1f} {off:6.1%}"
                print(f"{name:10} {start:16} {figures}  {advice.change}", flush=True)
    print(f"{near} of {total} predictions are within {NEAR:.0%} of what is realised")
    return 0 if near >= OFTEN * total else 1


if __name__ == "__main__":
    raise SystemExit(main())
