"""Ten other models than those of `planted`, for claims about planted errors: five that helped to choose, five not."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Unet(nn.Module):
    """Down, up, and a skip that is joined by channels."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.norm, self.deep = nn.BatchNorm2d(64), nn.Conv2d(64, 64, 3, padding=1)
        self.up, self.leave = nn.ConvTranspose2d(64, 32, 2, stride=2), nn.Conv2d(64, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = F.silu(self.enter(x))
        deep = F.relu(self.norm(self.down(skip)))
        deep = self.up(F.relu(self.deep(deep)))
        return self.leave(torch.cat([skip, deep], 1))


class Mixer(nn.Module):
    """Products over tokens and over channels by turns."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(96) for _ in range(4)])
        self.tokens = nn.ModuleList(
            [nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(2)]
        )
        self.channels = nn.ModuleList(
            [nn.Sequential(nn.Linear(96, 192), nn.GELU(), nn.Linear(192, 96)) for _ in range(2)]
        )
        self.head = nn.Linear(96, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, (tokens, channels) in enumerate(zip(self.tokens, self.channels)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


class Decoder(nn.Module):
    """Causal attention by its own kernel, root mean squares, gated feed-forward, tied scores."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(200, 128)
        self.norms = nn.ModuleList([nn.RMSNorm(128) for _ in range(5)])
        self.qkv = nn.ModuleList([nn.Linear(128, 384, bias=False) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(128, 128, bias=False) for _ in range(2)])
        self.gate = nn.ModuleList([nn.Linear(128, 256, bias=False) for _ in range(2)])
        self.up = nn.ModuleList([nn.Linear(128, 256, bias=False) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(256, 128, bias=False) for _ in range(2)])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for i in range(2):
            q, k, v = (p.unflatten(-1, (4, 32)).transpose(1, 2) for p in self.qkv[i](self.norms[2 * i](x)).chunk(3, -1))
            x = x + self.out[i](F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            y = self.norms[2 * i + 1](x)
            x = x + self.down[i](F.silu(self.gate[i](y)) * self.up[i](y))
        return self.norms[4](x) @ self.tokens.weight.T


class Squeezed(nn.Module):
    """Convolutions whose channels are weighed by a small net of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 32, 5, stride=2, padding=2)
        self.mix = nn.ModuleList([nn.Conv2d(32, 32, 3, padding=1) for _ in range(3)])
        self.less = nn.ModuleList([nn.Linear(32, 8) for _ in range(3)])
        self.more = nn.ModuleList([nn.Linear(8, 32) for _ in range(3)])
        self.head = nn.Linear(32, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.hardswish(self.enter(x)), 2)
        for mix, less, more in zip(self.mix, self.less, self.more):
            y = F.relu(mix(x))
            x = x + y * torch.sigmoid(more(F.relu(less(y.mean((2, 3))))))[:, :, None, None]
        return self.head(x.mean((2, 3)))


class Crossed(nn.Module):
    """Two inputs' towers, their outer product, and what it says of each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Linear(48, 128), nn.ELU(), nn.Linear(128, 64), nn.LayerNorm(64))
        self.two = nn.Sequential(nn.Linear(48, 128), nn.Softplus(), nn.Linear(128, 64), nn.LayerNorm(64))
        self.join = nn.Bilinear(64, 64, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.one(x[:, 0]), self.two(x[:, 1])
        return torch.log_softmax(self.head(torch.tanh(self.join(a, b) + (a * b).sum(-1, keepdim=True))), -1)


MODELS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "unet": (Unet, (1, 3, 32, 32)),
    "mixer": (Mixer, (2, 64, 96)),
    "decoder": (Decoder, (1, 64)),
    "squeezed": (Squeezed, (2, 3, 64, 64)),
    "crossed": (Crossed, (64, 2, 48)),
}
"""What is expected of ops without others like them was chosen on these; the decoder takes tokens."""


class Cells(nn.Module):
    """A recurrent cell with three gates, over a few moments."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.state, self.head = nn.Linear(40, 192), nn.Linear(64, 192, bias=False), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = torch.zeros(x.shape[1], 64)
        for moment in x:
            forget, write, new = (self.gates(moment) + self.state(held)).chunk(3, -1)
            held = torch.sigmoid(forget) * held + torch.sigmoid(write) * torch.tanh(new)
        return self.head(held)


class Grouped(nn.Module):
    """Residual blocks with group norms, made smaller by strides."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, 64, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(8, 64) for _ in range(4)])
        self.convs = nn.ModuleList([nn.Conv2d(64, 64, 3, padding=1) for _ in range(4)])
        self.down, self.leave = nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.Conv2d(64, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for i in (0, 2):
            y = self.convs[i](F.silu(self.norms[i](x)))
            x = x + self.convs[i + 1](F.silu(self.norms[i + 1](y)))
        return self.leave(self.down(x))


class Looking(nn.Module):
    """A few learned queries that read many tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 32, 64))
        self.key, self.value, self.out = nn.Linear(48, 64), nn.Linear(48, 64), nn.Linear(64, 64)
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)
        self.head = nn.Linear(64, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.queries @ self.key(x).transpose(-1, -2) / 8
        y = self.queries + self.out(torch.softmax(scores, -1) @ self.value(x))
        y = y + self.down(F.gelu(self.up(self.norm(y))))
        return self.head(y.mean(1))


class Neighbours(nn.Module):
    """Layers of a graph net: what neighbours hold, weighed by their degrees."""

    def __init__(self) -> None:
        super().__init__()
        drawn = torch.rand(96, 96, generator=torch.Generator().manual_seed(5)) < 0.08
        joined = (drawn | drawn.T).float() + torch.eye(96)
        self.register_buffer("joined", joined / joined.sum(-1, keepdim=True))
        self.mix = nn.ModuleList([nn.Linear(32, 64), nn.Linear(64, 64), nn.Linear(64, 64)])
        self.head = nn.Linear(64, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for mix in self.mix:
            x = F.leaky_relu(self.joined @ mix(x), 0.2)
        return self.head(x)


class Experts(nn.Module):
    """Four small nets, weighed by a fifth."""

    def __init__(self) -> None:
        super().__init__()
        self.choose = nn.Linear(64, 4)
        self.up = nn.ModuleList([nn.Linear(64, 96) for _ in range(4)])
        self.down = nn.ModuleList([nn.Linear(96, 64) for _ in range(4)])
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.choose(x), -1)
        parts = [w[..., None] * down(F.relu(up(x)) ** 2)
                 for w, up, down in zip(weights.unbind(-1), self.up, self.down)]  # fmt: skip
        return self.norm(x + torch.stack(parts).sum(0))


LATER: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "cells": (Cells, (3, 32, 40)),
    "grouped": (Grouped, (1, 4, 32, 32)),
    "looking": (Looking, (2, 96, 48)),
    "neighbours": (Neighbours, (96, 32)),
    "experts": (Experts, (128, 64)),
}
"""Looked at once, after everything was chosen."""
