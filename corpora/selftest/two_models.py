# labels: name::two_models author::proveout test_group::selftest task::other domain::other license::apache-2.0
"""Two models in one script, an encoder and a decoder of its codes: each is found and proven by itself."""

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

(batch_size,) = parse(["batch_size"])


class Encoder(nn.Module):
    def __init__(self, width: int = 128, code: int = 32) -> None:
        super().__init__()
        self.fc = nn.Linear(width, code)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(x))


class Decoder(nn.Module):
    def __init__(self, code: int = 32, width: int = 128) -> None:
        super().__init__()
        self.fc = nn.Linear(code, width)

    def forward(self, code: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.fc(code))


encoder, decoder = Encoder().eval(), Decoder().eval()
x = torch.randn(batch_size, 128)

with torch.no_grad():
    decoder(encoder(x))
