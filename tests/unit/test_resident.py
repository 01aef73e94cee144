"""A Program on a device that computes with torch: what stays of its setup, and what a changed weight remakes."""

from __future__ import annotations

import pytest
import torch

import proveout
from proveout.devices.resident import Resident
from proveout.types import Settings


class Attention(torch.nn.Module):
    """Its three products become one of a joined weight, which setup makes of three."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        heads = (part(x).unflatten(-1, (2, 32)).transpose(1, 2) for part in (self.query, self.key, self.value))
        return torch.nn.functional.scaled_dot_product_attention(*heads)


@pytest.fixture
def attention():
    torch.manual_seed(0)
    module, x = Attention().eval(), torch.randn(2, 32, 64)
    compiled = proveout.compile(module, x, device="sim", settings={"precision": "bfloat16"})
    program = compiled.program
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    assert any(step.kernel == "ttnn.concat" for step in program.setup), "nothing is joined: this tests nothing"
    weights = {name: torch.randn(program.specs[name].shape) for name in program.weights}
    assert sorted(tuple(w.shape) for w in weights.values()) == sorted(shapes.values())
    return program, weights, x


def loaded(program, weights):
    resident = proveout.open_device("sim").load(program, Settings(precision="bfloat16"))
    assert isinstance(resident, Resident)
    resident.set_weights(weights)
    return resident


def test_only_what_the_body_reads_stays_of_setup(attention):
    program, weights, _ = attention
    made = {name for step in program.setup for name in step.outputs}
    assert made - set(program.resident), "setup has no results on the way: this tests nothing"
    assert made & loaded(program, weights)._values.keys() == made & set(program.resident)


def test_a_changed_weight_remakes_what_depends_on_it_from_weights_alone(attention):
    program, weights, x = attention
    resident = loaded(program, weights)
    for name in program.weights:
        weights = {**weights, name: torch.randn_like(weights[name])}
        resident.set_weights({name: weights[name]})
        ours, theirs = resident.run([x]).outputs[0], loaded(program, weights).run([x]).outputs[0]
        assert torch.equal(ours, theirs)


def test_what_does_not_depend_on_a_changed_weight_is_not_made_again(attention):
    program, weights, _ = attention
    resident = loaded(program, weights)
    bias = next(n for n in program.weights if weights[n].dim() == 1)
    before = {name: resident.value(name) for name in program.resident}
    resident.set_weights({bias: weights[bias] + 1})
    remade = {name for name in program.resident if resident.value(name) is not before[name]}
    assert remade
    assert len(remade) < len(program.resident)
