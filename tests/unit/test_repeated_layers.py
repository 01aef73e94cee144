"""A model that is only planned is captured by a few of its layers where all are alike, and only there."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import proveout
from proveout.engine import compiled
from proveout.engine.layers import repeated_layers
from proveout.engine.repeat import Repeat

X = torch.ones(2, 8, 32, device="meta")


class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number, self.norm, self.linear = number, nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu()


class Masked(Layer):
    """With a constant of its own in each layer's graph, as GPT-Neo's mask."""

    def forward(self, x):
        return torch.where(x > 0, super().forward(x), torch.tensor(-3.0, device="cpu"))


class Stack(nn.Module):
    """`rescale` after every so many layers; with `hidden`, all layers' results as well."""

    def __init__(self, num=6, rescale=0, hidden=False, layer=Layer):
        super().__init__()
        self.rescale, self.hidden = rescale, hidden
        self.layers, self.head = nn.ModuleList(map(layer, range(num))), nn.Linear(32, 5)

    def forward(self, x):
        states = []
        for number, layer in enumerate(self.layers, 1):
            x = layer(x)
            states.append(x)
            if self.rescale and number % self.rescale == 0:
                x = x / 2
        return (self.head(x), *(states if self.hidden else ()))


def on_meta(**options):
    with torch.device("meta"):
        return Stack(**options).eval()


def planned(model):
    planned = proveout.compile(model, (X,), device="sim:n150", dry_run=True)
    texts = [re.sub(r"graph\d+", "graph", str(program)) for program in planned.programs]
    return texts, [plan.total_ns for plan in planned.plans], planned.coverage.ops


@pytest.mark.parametrize("layer", [Layer, Masked])
def test_a_plan_by_a_few_layers_is_the_plan_of_all(layer, monkeypatch):
    model = on_meta(layer=layer)
    assert repeated_layers(model, ((X,), {})).repeat == Repeat("layers", 1, 3)
    by_few = planned(model)
    assert len(model.layers) == 6, "the model is as it was"
    monkeypatch.setattr(compiled, "repeated_layers", lambda *_: None)
    assert by_few == planned(model)


@pytest.mark.parametrize("options", [{"rescale": 4}, {"hidden": True}, {"num": 3}])
def test_layers_that_a_call_tells_apart_are_all_captured(options):
    model = on_meta(**options)
    assert repeated_layers(model, ((X,), {})) is None
    assert len(model.layers) == options.get("num", 6)


def test_a_model_with_weights_is_captured_whole():
    assert repeated_layers(Stack(), ((torch.ones(2, 8, 32),), {})) is None
