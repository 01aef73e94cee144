"""What watching adds to a script's run time: the same scripts alone and watched, each in a new process.

    python tests/bench/discovery.py [--rounds 10] [--json FILE]

The claim is below 5 % of the scripts' own time. Processor time is compared, which other work on the machine disturbs
less than wall time. A script's two runs are neighbours, first one before the other and then the other before the one,
so that a machine that slows down favours neither; the interval is that of `proveout.measure.compare`. A first round,
not counted, leaves the compiled bytecode that an installed package has.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path

from proveout.coding import to_json
from proveout.measure.compare import compare
from proveout.types import Limits

AWKWARD = Path(__file__).parents[1] / "data" / "awkward"
SOURCE = str(Path(__file__).parents[2] / "src")
LIMIT = 0.05

BERT = """
import torch
from transformers import BertConfig, BertModel
torch.manual_seed(0)
model = BertModel(BertConfig()).eval()
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(1, 128, dtype=torch.int64))
"""
MANY_LAYERS = """
import torch
from torch import nn
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(500))).eval()
with torch.no_grad():
    for _ in range(100):
        model(torch.ones(32, 64))
"""
TRAINING = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(300):
    loss = model(torch.randn(64, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    spent_ns: dict[str, dict[str, list[int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text("from proveout import vision\nvision.serve()\n")
        scripts = [AWKWARD / "functions_and_methods.py", AWKWARD / "generates.py"]
        for name, source in {"bert": BERT, "many_layers": MANY_LAYERS, "training": TRAINING}.items():
            scripts.append(Path(folder, f"{name}.py"))
            scripts[-1].write_text(source)
        for number in range(1 + options.rounds):
            for script in scripts:
                words = {"alone": [str(script)], "watched": child(script, folder)}
                for way in sorted(words, reverse=bool(number % 2)):
                    sample = spent(words[way], folder)
                    if number:
                        spent_ns.setdefault(script.stem, {}).setdefault(way, []).append(sample)
            print(f"round {number} of {options.rounds}", file=sys.stderr, flush=True)
    spent_ns["all"] = {
        way: [sum(round_) for round_ in zip(*(samples[way] for samples in spent_ns.values()))]
        for way in ("alone", "watched")
    }
    rows = [row(name, **samples) for name, samples in spent_ns.items()]
    for each in rows:
        line = "{script:24} {alone_cpu_s:7.2f} s alone   {added:+6.1%} watched (95 %: {low:+.1%} to {high:+.1%})"
        print(line.format(**each))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    print(f"claim: all below {LIMIT:+.0%}")
    return 0 if float(rows[-1]["added"]) < LIMIT else 1


def child(script: Path, folder: str) -> list[str]:
    asked = {
        "script": str(script),
        "script_args": "",
        "max_depth": 0,
        "weights": "",
        "timeout_s": 600.0,
        "limits": to_json(Limits(processes=256)),
    }
    return ["-m", "proveout.capture.child", json.dumps(asked), f"{folder}/found.json"]


def spent(words: list[str], folder: str) -> int:
    """Processor time of one Python process in ns. Both kinds get at torchvision by `proveout.vision`:
    beside a CPU build of torch it cannot be imported otherwise."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([folder, SOURCE])}
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, *words],
        environment,
        file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)],
    )
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return round((used.ru_utime + used.ru_stime) * 1e9)


def row(script: str, alone: list[int], watched: list[int]) -> dict[str, float | str]:
    ratio = compare([[sample] for sample in alone], [[sample] for sample in watched]).ratio
    return {
        "script": script,
        "alone_cpu_s": statistics.median(alone) / 1e9,
        "added": (ratio.value or math.nan) - 1,
        "low": (ratio.low or math.nan) - 1,
        "high": (ratio.high or math.nan) - 1,
    }


if __name__ == "__main__":
    sys.exit(main())
