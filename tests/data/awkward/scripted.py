"""Models that torch.jit has compiled already, and the original of one of them."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) if bool(x.sum() > 0) else x


x = torch.ones(1, 4)
scripted = torch.jit.script(Gate())
scripted(x)
scripted(x)
torch.jit.trace(nn.Linear(4, 2), x)(x)
Gate()(x)
