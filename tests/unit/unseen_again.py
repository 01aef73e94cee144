"""Five models more: errors planted in them were looked at once, after the ranking was fixed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Dense(nn.Module):
    """Every layer reads all before it, joined by channels."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 32, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(32 * (i + 1)) for i in range(3)])
        self.grow = nn.ModuleList([nn.Conv2d(32 * (i + 1), 32, 3, padding=1) for i in range(3)])
        self.squeeze, self.head = nn.Conv2d(128, 48, 1), nn.Linear(48, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for norm, grow in zip(self.norms, self.grow):
            x = torch.cat([x, grow(F.relu(norm(x)))], 1)
        return self.head(F.avg_pool2d(F.mish(self.squeeze(x)), 4).mean((2, 3)))


class Translator(nn.Module):
    """An encoder's tokens, read by a decoder's, norms after the sums."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Linear(40, 96), nn.Linear(24, 96)
        self.own = nn.MultiheadAttention(96, 3, batch_first=True)
        self.cross = nn.MultiheadAttention(96, 3, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(96) for _ in range(4)])
        self.mix = nn.ModuleList([nn.Sequential(nn.Linear(96, 160), nn.SiLU(), nn.Linear(160, 96)) for _ in range(2)])
        self.head = nn.Linear(96, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory, held = self.source(x), self.target(x[:, :32, :24])
        memory = self.norms[0](memory + self.own(memory, memory, memory, need_weights=False)[0])
        memory = self.norms[1](memory + self.mix[0](memory))
        held = self.norms[2](held + self.cross(held, memory, memory, need_weights=False)[0])
        return self.head(self.norms[3](held + self.mix[1](held)))


class Waves(nn.Module):
    """Dilated convolutions over time with gates; every layer adds to what leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(16, 64, 1)
        self.gates = nn.ModuleList([nn.Conv1d(64, 128, 3, padding=d, dilation=d) for d in (1, 2, 4)])
        self.skips = nn.ModuleList([nn.Conv1d(64, 64, 1) for _ in range(3)])
        self.leave = nn.Sequential(nn.ReLU(), nn.Conv1d(64, 64, 1), nn.ReLU(), nn.Conv1d(64, 16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, total = self.enter(x), 0
        for gates, skip in zip(self.gates, self.skips):
            one, two = gates(x).chunk(2, 1)
            y = skip(torch.tanh(one) * torch.sigmoid(two))
            x, total = x + y, total + y
        return self.leave(total)


class Factors(nn.Module):
    """Fields as vectors, all pairs of them multiplied, beside a deep net."""

    def __init__(self) -> None:
        super().__init__()
        self.fields = nn.Parameter(torch.randn(20, 32) / 5)
        self.line = nn.Linear(20, 1)
        self.deep = nn.Sequential(
            nn.Linear(640, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.PReLU(),
            nn.Linear(64, 32),
            nn.Tanh(),
            nn.Linear(32, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = x[..., None] * self.fields
        pairs = (held.sum(1) ** 2 - (held**2).sum(1)).sum(-1, keepdim=True) / 2
        return torch.sigmoid(self.line(x) + 0.1 * pairs + self.deep(held.flatten(1)))


class Separable(nn.Module):
    """Convolutions of single channels and of single points by turns, and a bottleneck that turns them round."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.wide = nn.ModuleList([nn.Conv2d(32, 96, 1) for _ in range(2)])
        self.each = nn.ModuleList([nn.Conv2d(96, 96, 3, padding=1, groups=96) for _ in range(2)])
        self.slim = nn.ModuleList([nn.Conv2d(96, 32, 1) for _ in range(2)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(32) for _ in range(2)])
        self.head = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.enter(x))
        for wide, each, slim, norm in zip(self.wide, self.each, self.slim, self.norms):
            x = x + norm(slim(F.relu6(each(F.relu6(wide(x))))))
        return F.softmax(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), -1)


MODELS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "dense": (Dense, (1, 3, 32, 32)),
    "translator": (Translator, (1, 64, 40)),
    "waves": (Waves, (1, 16, 128)),
    "factors": (Factors, (64, 20)),
    "separable": (Separable, (1, 3, 64, 64)),
}
