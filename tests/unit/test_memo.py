"""Repeated layers are lowered once, and what is repeated is what lowering would have given."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import proveout
from proveout.compiler import lower, memo


class Layer(torch.nn.Module):
    """Norms, products, a constant mask, an op with two results and one that stays on the host."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        a, b = torch.split(self.up(self.norm(x)), 32, dim=-1)
        a = a.masked_fill(torch.ones(4, 32).tril().bool(), 0.5)
        return x + self.down(torch.cat([torch.special.i0(a), b], -1))


def stack(depth):
    torch.manual_seed(0)
    return torch.nn.Sequential(*[Layer() for _ in range(depth)]).eval()


def compiled(depth, **settings):
    torch._dynamo.reset()
    return proveout.compile(stack(depth), torch.randn(4, 32), settings={"verify": True, **settings})


@pytest.mark.slow
def test_a_deeper_stack_of_layers_calls_no_lowering_more(monkeypatch):
    calls = Counter()
    original = lower._lower_by

    def counted(row, *rest):
        calls[row.aten] += 1
        return original(row, *rest)

    monkeypatch.setattr(lower, "_lower_by", counted)
    compiled(2)
    shallow = Counter(calls)
    calls.clear()
    compiled(8)
    assert calls == shallow


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["model", "bfloat16"])
def test_repeating_gives_the_program_that_lowering_gives(monkeypatch, precision):
    repeated = compiled(3, precision=precision)
    monkeypatch.setattr(memo.Memo, "lowered", lambda self, aten, arguments, lower: lower())
    plain = compiled(3, precision=precision)
    kernels = [Counter(step.kernel for step in c.program.body) for c in (repeated, plain)]
    assert kernels[0] == kernels[1]
    x = torch.randn(4, 32)
    assert torch.equal(repeated(x), plain(x))
    assert set(repeated.coverage.ops) == set(plain.coverage.ops)


def test_repeated_steps_know_their_own_module():
    modules = {s.origin.module for s in compiled(3).program.body if s.kernel == "ttnn.linear"}
    assert modules == {f"{i}.{name}" for i in range(3) for name in ("up", "down")}
