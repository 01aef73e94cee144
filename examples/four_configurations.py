"""NeuronPerf's default run, on this machine's CPU: {1, all} models × {1, 2} workers, two seconds each.

`python examples/four_configurations.py [FOLDER]` prints the table and leaves benchmark.html, .csv and .json there.
"""

import sys
from pathlib import Path

import torch
from torch import nn

import proveout as npf


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.ReLU())))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    reports = npf.cpu.benchmark(Model, torch.randn(8, 256), batch_sizes=8, duration=2)
    npf.print_reports(reports)
    npf.write_csv(reports, str(folder / "benchmark.csv"))
    npf.write_json(reports, str(folder / "benchmark.json"))
    npf.write_html(reports, str(folder / "benchmark.html"))
