"""Thirty-five models more, in seven sets: errors planted in them were looked at once. The first three came after sums'
lengths and drifts were taken into account, the next two after suspects were ranked by what they add beyond twice what
is expected, the last two after the error of a product was held against the pattern of LoFi's."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import nn


class Autoencoder(nn.Module):
    """Narrower and narrower, and back."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (160, 96, 48, 12, 48, 96, 160)
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in itertools.pairwise(sizes)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            x = F.elu(layer(x))
        return self.layers[-1](x)


class Pyramid(nn.Module):
    """Features of three sizes, joined from the smallest up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in ((3, 24), (24, 48), (48, 96))])
        self.side = nn.ModuleList([nn.Conv2d(c, 32, 1) for c in (24, 48, 96)])
        self.leave = nn.Conv2d(32, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for down in self.down:
            x = F.relu(down(x))
            seen.append(x)
        y = self.side[2](seen[2])
        for i in (1, 0):
            y = F.interpolate(y, scale_factor=2.0, mode="nearest") + self.side[i](seen[i])
        return self.leave(y)


class Twins(nn.Module):
    """One encoder on both halves of what it is given, compared by cosine."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.norm = nn.Linear(80, 144), nn.Linear(144, 64), nn.LayerNorm(64)
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = (F.normalize(self.norm(self.two(F.gelu(self.one(half)))), dim=-1) for half in x.chunk(2, 0))
        return a @ b.T * self.scale


class Highway(nn.Module):
    """What a gate lets by, and what it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(24, 72)
        self.change = nn.ModuleList([nn.Linear(72, 72) for _ in range(4)])
        self.gate = nn.ModuleList([nn.Linear(72, 72) for _ in range(4)])
        self.head = nn.Linear(72, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for change, gate in zip(self.change, self.gate):
            open_ = torch.sigmoid(gate(x) - 1)
            x = open_ * F.relu(change(x)) + (1 - open_) * x
        return self.head(x)


class Patches(nn.Module):
    """An image in patches, one block of attention, a learned token in front."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.first = nn.Conv2d(3, 64, 8, stride=8), nn.Parameter(torch.randn(1, 1, 64) / 8)
        self.places = nn.Parameter(torch.randn(1, 17, 64) / 8)
        self.block = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.block(x))[:, 0])


class Listener(nn.Module):
    """Convolutions over time, then a projection of every moment."""

    def __init__(self) -> None:
        super().__init__()
        self.hear = nn.ModuleList([nn.Conv1d(20, 64, 5, padding=2), nn.Conv1d(64, 64, 5, stride=2, padding=2)])
        self.mix, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)
        self.up, self.down, self.head = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 30)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for hear in self.hear:
            x = F.gelu(hear(x))
        x = x.transpose(1, 2)
        x = self.norm(x + torch.tanh(self.mix(x)))
        return torch.log_softmax(self.head(x + self.down(F.silu(self.up(x)))), -1)


class Actor(nn.Module):
    """Two heads on one trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(36, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.act, self.value = nn.Linear(128, 6), nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen = self.trunk(x)
        return torch.softmax(self.act(seen), -1), self.value(seen)


class Ghost(nn.Module):
    """Cheap channels made of others, with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.few = nn.ModuleList([nn.Conv2d(32, 32, 1), nn.Conv2d(64, 32, 1)])
        self.cheap = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.norm, self.head = nn.BatchNorm2d(32), nn.Linear(32, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.hardswish(self.enter(x))
        y = F.relu(self.few[0](x))
        y = self.norm(self.few[1](torch.cat([y, self.cheap(y)], 1)))
        return self.head((x + y).mean((2, 3)))


class Groups(nn.Module):
    """Attention whose keys and values are shared by queries, with rotated halves and root mean squares."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last = nn.RMSNorm(96), nn.RMSNorm(96)
        self.q, self.k, self.v = (nn.Linear(96, w, bias=False) for w in (96, 32, 32))
        self.o, self.gate, self.up, self.down = (
            nn.Linear(a, b, bias=False) for a, b in ((96, 96), (96, 192), (96, 192), (192, 96))
        )
        angle = torch.arange(48)[:, None] / 100 ** (torch.arange(16) / 16)
        self.register_buffer("cos", torch.cos(torch.cat([angle, angle], -1)))
        self.register_buffer("sin", torch.sin(torch.cat([angle, angle], -1)))

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        q, k, v = (p(y).unflatten(-1, (-1, 32)).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = self.turned(q) @ self.turned(k).transpose(-1, -2) / 32**0.5
        x = x + self.o((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))
        y = self.last(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Series(nn.Module):
    """A forecast: blocks that take away what they explain."""

    def __init__(self) -> None:
        super().__init__()
        self.learn = nn.ModuleList(
            [nn.Sequential(nn.Linear(60, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU()) for _ in range(3)]
        )
        self.back = nn.ModuleList([nn.Linear(96, 60) for _ in range(3)])
        self.ahead = nn.ModuleList([nn.Linear(96, 15) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = 0
        for learn, back, ahead in zip(self.learn, self.back, self.ahead):
            y = learn(x)
            x, total = x - back(y), total + ahead(y)
        return total


class Painter(nn.Module):
    """A small picture grown from a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(48, 64 * 4 * 4)
        self.grow = nn.ModuleList(
            [nn.ConvTranspose2d(64, 48, 4, stride=2, padding=1), nn.ConvTranspose2d(48, 32, 4, stride=2, padding=1)]
        )
        self.norm, self.leave = nn.BatchNorm2d(48), nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.enter(x)).unflatten(1, (64, 4, 4))
        x = F.relu(self.norm(self.grow[0](x)))
        return torch.tanh(self.leave(F.relu(self.grow[1](x))))


class Conditioned(nn.Module):
    """One half says how the other's features are scaled and moved."""

    def __init__(self) -> None:
        super().__init__()
        self.say, self.see = nn.Linear(40, 256), nn.Linear(40, 64)
        self.mix = nn.ModuleList([nn.Linear(64, 64) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(64, elementwise_affine=False) for _ in range(2)])
        self.head = nn.Linear(64, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        said, y = self.say(x[:, 0]).chunk(4, -1), self.see(x[:, 1])
        for i in range(2):
            y = y + F.gelu(self.mix[i](self.norms[i](y) * (1 + said[2 * i]) + said[2 * i + 1]))
        return self.head(y)


class Memory(nn.Module):
    """Rows of a store, read by how near they are."""

    def __init__(self) -> None:
        super().__init__()
        self.keys, self.rows = nn.Parameter(torch.randn(128, 32)), nn.Parameter(torch.randn(128, 64))
        self.ask, self.out, self.head = nn.Linear(56, 32), nn.Linear(64, 64), nn.Linear(64, 14)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = torch.softmax(self.ask(x) @ self.keys.T / 4, -1) @ self.rows
        return self.head(F.relu(read + self.out(read)))


class Inception(nn.Module):
    """Kernels of several sizes side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 32, 3, padding=1)
        self.ways = nn.ModuleList(
            [nn.Conv2d(32, 16, 1), nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(32, 16, 5, padding=2)]
        )
        self.join, self.head = nn.Conv2d(48, 32, 1), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.enter(x))
        y = torch.cat([F.relu(way(x)) for way in self.ways], 1)
        return self.head((x + self.join(y)).amax((2, 3)))


class Deep(nn.Module):
    """Many equal layers with norms between, one long product in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(96, 96) for _ in range(6)])
        self.norms = nn.ModuleList([nn.LayerNorm(96) for _ in range(3)])
        self.wide, self.head = nn.Linear(96, 768), nn.Linear(768, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = F.leaky_relu(layer(x), 0.1)
            x = self.norms[i // 2](x) if i % 2 else x
        return self.head(F.softplus(self.wide(x)))


class Residues(nn.Module):
    """Convolutions whose channels are narrowed, seen, and widened again."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, 64, 3, padding=1)
        self.narrow = nn.ModuleList([nn.Conv2d(64, 16, 1) for _ in range(2)])
        self.see = nn.ModuleList([nn.Conv2d(16, 16, 3, padding=1) for _ in range(2)])
        self.widen = nn.ModuleList([nn.Conv2d(16, 64, 1) for _ in range(2)])
        self.head = nn.Linear(64, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for narrow, see, widen in zip(self.narrow, self.see, self.widen):
            x = F.relu(x + widen(F.relu(see(F.relu(narrow(x))))))
        return self.head(x.mean((2, 3)))


class Reader(nn.Module):
    """Words into one vector by what each says of its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.mix = nn.Linear(50, 96), nn.Linear(96, 96)
        self.weigh, self.head = nn.Linear(96, 32), nn.Linear(96, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.mix(F.relu(self.enter(x))))
        weights = torch.softmax(self.weigh(y).mean(-1, keepdim=True), 1)
        return self.head((y * weights).sum(1))


class Fourier(nn.Module):
    """Sines and cosines of what comes in, then a net."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("waves", torch.randn(8, 64, generator=torch.Generator().manual_seed(2)))
        self.layers = nn.ModuleList([nn.Linear(128, 128), nn.Linear(128, 128), nn.Linear(128, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        phase = x @ self.waves
        y = torch.cat([torch.sin(phase), torch.cos(phase)], -1)
        return torch.sigmoid(self.layers[2](F.silu(self.layers[1](F.silu(self.layers[0](y))))))


class Shared(nn.Module):
    """One block, three times over."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(32, 80), nn.LayerNorm(80)
        self.up, self.down, self.head = nn.Linear(80, 240), nn.Linear(240, 80), nn.Linear(80, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for _ in range(3):
            x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.head(x)


class Ranker(nn.Module):
    """Two towers of embeddings and a small net on their products."""

    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Sequential(nn.Linear(44, 64), nn.ReLU(), nn.Linear(64, 64))
        self.item = nn.Sequential(nn.Linear(44, 64), nn.ReLU(), nn.Linear(64, 64))
        self.cross, self.head = nn.Linear(192, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.user(x[:, 0]), self.item(x[:, 1])
        return self.head(F.relu(self.cross(torch.cat([a, b, a * b], -1))))


class Dilated(nn.Module):
    """Wider and wider kernels, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 32, 3, padding=1)
        self.wide = nn.ModuleList([nn.Conv2d(32, 32, 3, padding=d, dilation=d) for d in (1, 2, 3)])
        self.join, self.leave = nn.Conv2d(96, 32, 1), nn.Conv2d(32, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.enter(x))
        return self.leave(F.relu(self.join(torch.cat([wide(x) for wide in self.wide], 1))))


class Speaker(nn.Module):
    """Statistics over time of what convolutions hear."""

    def __init__(self) -> None:
        super().__init__()
        self.hear = nn.ModuleList([nn.Conv1d(24, 64, 5, padding=2), nn.Conv1d(64, 64, 3, padding=1)])
        self.one, self.two = nn.Linear(128, 64), nn.Linear(64, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for hear in self.hear:
            x = F.relu(hear(x))
        mean = x.mean(-1)
        spread = ((x - mean[..., None]) ** 2).mean(-1)
        return self.two(F.relu(self.one(torch.cat([mean, torch.sqrt(spread + 1e-3)], -1))))


class Lattice(nn.Module):
    """Sites that look at all others, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(20, 64)
        self.see = nn.ModuleList([nn.MultiheadAttention(64, 2, batch_first=True) for _ in range(2)])
        self.norms, self.head = nn.ModuleList([nn.LayerNorm(64) for _ in range(2)]), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for see, norm in zip(self.see, self.norms):
            y = norm(x)
            x = x + see(y, y, y, need_weights=False)[0]
        return self.head(x)


class Mixture(nn.Module):
    """Means, spreads and weights of a few bells."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(28, 112), nn.Linear(112, 112)])
        self.weight, self.mean, self.spread = (nn.Linear(112, 12) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            x = F.elu(layer(x))
        return torch.log_softmax(self.weight(x), -1), self.mean(x), F.softplus(self.spread(x))


class Router(nn.Module):
    """A wide net whose parts are scaled by a narrow one."""

    def __init__(self) -> None:
        super().__init__()
        self.choose = nn.Linear(64, 8)
        self.wide, self.back, self.norm = nn.Linear(64, 256), nn.Linear(256, 64), nn.RMSNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = F.relu(self.wide(x)).unflatten(-1, (8, 32)) * torch.softmax(self.choose(x), -1)[..., None]
        return self.norm(x + self.back(parts.flatten(-2)))


class Next(nn.Module):
    """Depthwise kernels, norms over channels, wide products between."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 4, stride=4)
        self.deep = nn.ModuleList([nn.Conv2d(64, 64, 7, padding=3, groups=64) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(64) for _ in range(3)])
        self.up = nn.ModuleList([nn.Linear(64, 256) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(256, 64) for _ in range(2)])
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for deep, norm, up, down in zip(self.deep, self.norms, self.up, self.down):
            y = down(F.gelu(up(norm(deep(x).permute(0, 2, 3, 1)))))
            x = x + y.permute(0, 3, 1, 2)
        return self.head(self.norms[2](x.mean((2, 3))))


class Sentence(nn.Module):
    """Kernels of three widths over words, the largest over time."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Linear(40, 64)
        self.ways = nn.ModuleList([nn.Conv1d(64, 32, k) for k in (3, 4, 5)])
        self.mix, self.head = nn.Linear(96, 64), nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.words(x)).transpose(1, 2)
        y = torch.cat([F.relu(w(x)).amax(-1) for w in self.ways], 1)
        return self.head(torch.tanh(self.mix(y)))


class Spectral(nn.Module):
    """Tokens mixed by fixed cosines, then a feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        n, d = torch.arange(32.0), torch.arange(96.0)
        self.register_buffer("over", torch.cos(torch.outer(n, n + 0.5) * torch.pi / 32) / 4)
        self.register_buffer("along", torch.cos(torch.outer(d, d + 0.5) * torch.pi / 96) / 7)
        self.norms = nn.ModuleList([nn.LayerNorm(96) for _ in range(4)])
        self.up = nn.ModuleList([nn.Linear(96, 192) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(192, 96) for _ in range(2)])
        self.head = nn.Linear(96, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(2):
            x = self.norms[2 * i](x + self.over @ x @ self.along)
            x = self.norms[2 * i + 1](x + self.down[i](F.gelu(self.up[i](x))))
        return self.head(x[:, 0])


class Long(nn.Module):
    """A cell with a state and a memory over a few moments, two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.ModuleList([nn.Linear(24, 256), nn.Linear(64, 256)])
        self.again = nn.ModuleList([nn.Linear(64, 256, bias=False) for _ in range(2)])
        self.head = nn.Linear(64, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c = [torch.zeros(x.shape[1], 64)] * 2, [torch.zeros(x.shape[1], 64)] * 2
        for y in x:
            for i in range(2):
                a, b, g, o = (self.inside[i](y) + self.again[i](h[i])).chunk(4, -1)
                c[i] = torch.sigmoid(b) * c[i] + torch.sigmoid(a) * torch.tanh(g)
                h[i] = torch.sigmoid(o) * torch.tanh(c[i])
                y = h[i]
        return self.head(y)


class Field(nn.Module):
    """Places in space, told by sines; a skip in the middle; colours and a density."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("waves", 2.0 ** torch.arange(6))
        self.one = nn.ModuleList([nn.Linear(39, 96), nn.Linear(96, 96), nn.Linear(135, 96)])
        self.density, self.colour = nn.Linear(96, 1), nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        phase = (x[..., None] * self.waves).flatten(1)
        told = torch.cat([x, torch.sin(phase), torch.cos(phase)], -1)
        y = F.relu(self.one[1](F.relu(self.one[0](told))))
        y = F.relu(self.one[2](torch.cat([y, told], -1)))
        return torch.sigmoid(self.colour(y)), F.softplus(self.density(y))


class Causal(nn.Module):
    """Convolutions over time that look back only, wider each time, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(12, 48, 1)
        self.back = nn.ModuleList([nn.Conv1d(48, 48, 3, dilation=2**i) for i in range(3)])
        self.point = nn.ModuleList([nn.Conv1d(48, 48, 1) for _ in range(3)])
        self.head = nn.Linear(48, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for i, (back, point) in enumerate(zip(self.back, self.point)):
            x = F.relu(x + point(F.relu(back(F.pad(x, (2 * 2**i, 0))))))
        return self.head(x[..., -1])


class Edges(nn.Module):
    """Nodes that attend to their neighbours by added scores."""

    def __init__(self) -> None:
        super().__init__()
        drawn = torch.rand(64, 64, generator=torch.Generator().manual_seed(9)) < 0.2
        self.register_buffer("mask", torch.where(drawn | torch.eye(64).bool(), 0.0, -1e4))
        self.see = nn.ModuleList([nn.Linear(32, 64), nn.Linear(64, 64)])
        self.src = nn.ModuleList([nn.Linear(64, 1) for _ in range(2)])
        self.dst = nn.ModuleList([nn.Linear(64, 1) for _ in range(2)])
        self.head = nn.Linear(64, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for see, src, dst in zip(self.see, self.src, self.dst):
            h = see(x)
            scores = F.leaky_relu(src(h) + dst(h).T, 0.2) + self.mask
            x = F.elu(torch.softmax(scores, -1) @ h)
        return self.head(x)


class Pairs(nn.Module):
    """Dense features and tables' rows, their pairwise products, a net on top."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.rows = nn.ModuleList([nn.Linear(16, 32) for _ in range(3)])
        self.top = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.bottom(x[:, :13])
        parts = torch.stack([a, *(r(x[:, 13 + 16 * i : 29 + 16 * i]) for i, r in enumerate(self.rows))], 1)
        both = (parts @ parts.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([a, both], -1)))


class Shuffle(nn.Module):
    """Grouped kernels whose channels are dealt anew."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Conv2d(3, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64)
        self.one = nn.ModuleList([nn.Conv2d(32, 32, 1) for _ in range(2)])
        self.deep = nn.ModuleList([nn.Conv2d(32, 32, 3, padding=1, groups=32) for _ in range(2)])
        self.two = nn.ModuleList([nn.Conv2d(32, 32, 1) for _ in range(2)])
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.enter(x)))
        for one, deep, two in zip(self.one, self.deep, self.two):
            a, b = x.chunk(2, 1)
            b = F.relu(two(deep(F.relu(one(b)))))
            x = torch.cat([a, b], 1).unflatten(1, (2, 32)).transpose(1, 2).flatten(1, 2)
        return self.head(x.mean((2, 3)))


class Linearly(nn.Module):
    """Attention without a softmax: keys' and values' products first."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(20, 64)
        self.qkv = nn.ModuleList([nn.Linear(64, 192) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(64, 64) for _ in range(2)])
        self.norms, self.head = nn.ModuleList([nn.LayerNorm(64) for _ in range(2)]), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for qkv, out, norm in zip(self.qkv, self.out, self.norms):
            q, k, v = (p.unflatten(-1, (2, 32)).transpose(1, 2) for p in qkv(norm(x)).chunk(3, -1))
            q, k = F.elu(q) + 1, F.elu(k) + 1
            y = (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2))
            x = x + out(y.transpose(1, 2).flatten(2))
        return self.head(x.mean(1))


Models = dict[str, tuple[type[nn.Module], tuple[int, ...]]]
SETS: tuple[Models, ...] = (
    {
        "autoencoder": (Autoencoder, (64, 160)),
        "pyramid": (Pyramid, (1, 3, 32, 32)),
        "twins": (Twins, (64, 80)),
        "highway": (Highway, (32, 24)),
        "patches": (Patches, (2, 3, 32, 32)),
    },
    {
        "listener": (Listener, (1, 20, 64)),
        "actor": (Actor, (64, 36)),
        "ghost": (Ghost, (1, 3, 32, 32)),
        "groups": (Groups, (1, 48, 96)),
        "series": (Series, (32, 60)),
    },
    {
        "painter": (Painter, (2, 48)),
        "conditioned": (Conditioned, (64, 2, 40)),
        "memory": (Memory, (64, 56)),
        "inception": (Inception, (1, 3, 16, 16)),
        "deep": (Deep, (32, 96)),
    },
    {
        "residues": (Residues, (1, 4, 16, 16)),
        "reader": (Reader, (4, 32, 50)),
        "fourier": (Fourier, (128, 8)),
        "shared": (Shared, (64, 32)),
        "ranker": (Ranker, (64, 2, 44)),
    },
    {
        "dilated": (Dilated, (1, 3, 24, 24)),
        "speaker": (Speaker, (4, 24, 64)),
        "lattice": (Lattice, (1, 64, 20)),
        "mixture": (Mixture, (64, 28)),
        "router": (Router, (64, 64)),
    },
    {
        "next": (Next, (2, 3, 32, 32)),
        "sentence": (Sentence, (8, 32, 40)),
        "spectral": (Spectral, (2, 32, 96)),
        "long": (Long, (3, 32, 24)),
        "field": (Field, (128, 3)),
    },
    {
        "causal": (Causal, (4, 12, 64)),
        "edges": (Edges, (64, 32)),
        "pairs": (Pairs, (64, 61)),
        "shuffle": (Shuffle, (1, 3, 32, 32)),
        "linearly": (Linearly, (2, 64, 20)),
    },
)
MODELS: Models = {name: model for one in SETS for name, model in one.items()}
