"""What watching adds to a script's run time: the same scripts alone and watched, turn about, each in a new process.

    python tests/bench/discovery.py [--rounds 5] [--json FILE]

The claim is below 5 % of the script's own time. Processor time is compared, which other work on the machine disturbs
less than wall time; both are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from proveout.coding import to_json
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text("from proveout import vision\nvision.serve()\n")
        scripts = {AWKWARD / "functions_and_methods.py": "", AWKWARD / "generates.py": ""}
        for name, source in {"bert": BERT, "many_layers": MANY_LAYERS, "training": TRAINING}.items():
            path = Path(folder, f"{name}.py")
            path.write_text(source)
            scripts[path] = ""
        for script, arguments in scripts.items():
            alone, watched = [], []
            for _ in range(options.rounds):
                alone.append(spent([str(script), *arguments.split()], folder))
                watched.append(spent(child(script, arguments, folder), folder))
            rows.append(row(script.stem, alone, watched))
            line = "{script:24} {alone_cpu_s:7.2f} s alone {watched_cpu_s:7.2f} s watched {added:+7.1%}"
            print(line.format(**rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    total = sum(r["watched_cpu_s"] for r in rows) / sum(r["alone_cpu_s"] for r in rows) - 1
    print(f"{'all':24} {total:+.1%} of processor time (claim: below {LIMIT:.0%})")
    return 0 if total < LIMIT else 1


def child(script: Path, arguments: str, folder: str) -> list[str]:
    asked = {
        "script": str(script),
        "script_args": arguments,
        "max_depth": 0,
        "weights": "",
        "timeout_s": 600.0,
        "limits": to_json(Limits(processes=256)),
    }
    return ["-m", "proveout.capture.child", json.dumps(asked), f"{folder}/found.json"]


def spent(words: list[str], folder: str) -> tuple[float, float]:
    """(processor seconds, wall seconds) of one Python process. Both kinds get at torchvision by `proveout.vision`:
    beside a CPU build of torch it cannot be imported otherwise."""
    started = time.perf_counter()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, *words],
        {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([folder, SOURCE])},
        file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)],
    )
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - started


def row(script: str, alone: list[tuple[float, float]], watched: list[tuple[float, float]]) -> dict[str, float | str]:
    """The least of each: what is added by other work on the machine is never negative."""
    cpu = [min(sample[0] for sample in samples) for samples in (alone, watched)]
    wall = [statistics.median(sample[1] for sample in samples) for samples in (alone, watched)]
    return {
        "script": script,
        "alone_cpu_s": cpu[0],
        "watched_cpu_s": cpu[1],
        "added": cpu[1] / cpu[0] - 1,
        "alone_wall_s": wall[0],
        "watched_wall_s": wall[1],
    }


if __name__ == "__main__":
    sys.exit(main())
