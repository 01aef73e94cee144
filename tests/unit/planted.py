"""Five small models, and errors planted in one op of a loaded Program: what `explain` must find."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import unseen
import unseen_again
import unseen_fresh
from torch import nn

import proveout
from proveout.chip.specs import CHIPS
from proveout.devices.execute import run_step
from proveout.kernels.blockfloat import quantise
from proveout.kernels.faithful import faithful
from proveout.kernels.row import MATRIX_UNIT
from proveout.kernels.table import kernels
from proveout.program import Loaded, Step

KINDS = ("scaled by 1.01", "a weight in bfloat4_b", "a product in LoFi")


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(6)])
        self.head = nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.one, self.two = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(x + self.one(x))
        x = F.relu(x + self.two(x))
        return self.head(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])
        self.values = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for gate, value in zip(self.gates, self.values):
            x = x + 2 * F.silu(gate(x)) * value(x)
        return x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.keep, self.head = nn.Linear(32, 64), nn.Linear(64, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.shape[1], 64)
        for moment in x:
            state = 0.5 * state + torch.tanh(self.enter(moment) + self.keep(state))
        return self.head(state)


MODELS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "mlp": (Mlp, (32, 64)),
    "residual": (Residual, (2, 3, 16, 16)),
    "transformer": (Transformer, (1, 32, 64)),
    "gated": (Gated, (32, 64)),
    "recurrent": (Recurrent, (4, 32, 32)),
}


@functools.cache
def loaded(name: str, numerics: str, weighty: bool = True) -> tuple[Loaded, list[Any]]:
    """A model's Program on the simulated chip with its weights, and the inputs of one call."""
    later = {**unseen.LATER, **unseen_again.MODELS, **unseen_fresh.MODELS}
    torch.manual_seed(23 if name in later else 11 if name in unseen.MODELS else 3)
    kind, shape = {**MODELS, **unseen.MODELS, **later}[name]
    model = kind().eval()
    model = _weighty(model) if weighty else model
    given = torch.randint(0, 200, shape) if name == "decoder" else torch.randn(shape)
    compiled = proveout.compile(
        model, (given,), device="sim:n150", settings={"precision": "bfloat16", "numerics": numerics}
    )
    runs: list[tuple[Loaded, list[Any]]] = []
    with compiled.watching(lambda v, a: runs.append((v.ready(a), [a[i] for i in v.compiled.input_positions]))):
        compiled(given)
    (one,) = runs
    KEPT.append(compiled)
    return one


def _weighty(model: nn.Module) -> nn.Module:
    """Weights under which every branch weighs as much as what it is added to, as training leaves them: PyTorch's own
    first weights make branches so small that an error in one is no cause of anything."""
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=GAIN / weight[0].numel() ** 0.5)
    return model


GAIN = 2.0
KEPT: list[Any] = []
"""Compiled models whose Programs are in use: weights go with their model."""


@dataclass(frozen=True)
class Planted:
    """A loaded Program one of whose Steps computes something else."""

    within: Loaded
    value: Any
    program: Any
    step: str
    kind: str

    @staticmethod
    def of(within: Loaded, step: Step, kind: str) -> Planted:
        return Planted(within, within.value, within.program, step.outputs[0], kind)

    def run_step(self, step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
        if self.step not in step.outputs:
            return self.within.run_step(step, values)
        if self.kind == "a product in LoFi":
            return run_step(step, values, lambda s: faithful(s, self.program.specs, CHIPS["n150"], "LoFi"))
        if self.kind == "a weight in bfloat4_b":
            weight = weight_of(step, self.program)
            return self.within.run_step(step, {**values, weight: quantise(values[weight], "bfloat4_b", "device")})
        return tuple(r * 1.01 for r in self.within.run_step(step, values))


def weight_of(step: Step, program: Any) -> str:
    """The matrix of weights that a product reads; empty where it reads none."""
    made = {*program.weights, *(n for s in program.setup for n in s.outputs)}
    return next((n for n in step.uses if n in made and len(program.specs[n].shape) > 1), "")


def places(program: Any, kind: str) -> Sequence[Step]:
    """Steps that an error of this kind can be planted in."""
    found = []
    for step in program.body:
        row = None if step.on_host or not step.outputs else kernels()[step.kernel]
        if row is None or row.moves or step.is_transfer or row.kind in ("layout", "memory", "cast"):
            continue
        if kind == KINDS[0] or (row.kind in MATRIX_UNIT and (kind == KINDS[2] or weight_of(step, program))):
            found.append(step)
    return found


def draw(seed: int, weighty: bool = True, models: Iterable[str] = MODELS) -> tuple[str, Planted, list[Any]]:
    """One planted error: the model's name, the Program with it, the inputs."""
    names = list(models)
    name = names[seed % len(names)]
    kind = KINDS[seed // len(names) % len(KINDS)]
    within, inputs = loaded(name, "faithful" if kind == KINDS[2] else "fast", weighty)
    step = random.Random(seed).choice(places(within.program, kind))
    return name, Planted.of(within, step, kind), inputs
