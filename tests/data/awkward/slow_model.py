"""A model that takes its time; the first argument says how long."""

import sys
import time

import torch
from torch import nn


class Slow(nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.fc, self.seconds = nn.Linear(2, 2), seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return self.fc(x)


Slow(float(sys.argv[1]))(torch.ones(1, 2))
