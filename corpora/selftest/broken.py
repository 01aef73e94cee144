# labels: name::broken author::proveout test_group::selftest task::other domain::other license::apache-2.0 expect::fail
"""A model that fails on purpose: its head expects twice the width that its body gives, so the call raises."""

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

(batch_size,) = parse(["batch_size"])


class Broken(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Linear(width, width)
        self.head = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


model = Broken().eval()
x = torch.randn(batch_size, 64)

with torch.no_grad():
    model(x)
