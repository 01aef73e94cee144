# labels: name::dynamic_shapes author::proveout test_group::selftest task::other domain::other license::apache-2.0
"""One model called with three batch sizes: each shape is a workload of its own."""

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

(batch_size,) = parse(["batch_size"])


class Classifier(nn.Module):
    def __init__(self, width: int = 64, classes: int = 16) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.hidden(x))).softmax(dim=-1)


model = Classifier().eval()

with torch.no_grad():
    for factor in (1, 2, 4):
        model(torch.randn(factor * batch_size, 64))
