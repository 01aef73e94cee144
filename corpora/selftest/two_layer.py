# labels: name::two_layer author::proveout test_group::selftest task::other domain::other license::apache-2.0
"""A two-layer perceptron with GELU, layer normalisation and a residual: a transformer's feed-forward."""

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

(batch_size,) = parse(["batch_size"])


class TwoLayer(nn.Module):
    def __init__(self, width: int = 64, hidden: int = 256) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


model = TwoLayer().eval()
x = torch.randn(batch_size, 64)

with torch.no_grad():
    model(x)
