# labels: name::linear author::proveout test_group::selftest task::other domain::other license::apache-2.0
"""One linear layer: the smallest script that holds a model. Copy it to start your own."""

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

(batch_size,) = parse(["batch_size"])


class Linear(nn.Module):
    def __init__(self, in_features: int = 64, out_features: int = 32) -> None:
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


model = Linear().eval()
x = torch.randn(batch_size, 64)

with torch.no_grad():
    model(x)
