"""Integers that the graph itself proves to fit 32 bits run on the device; those that it does not stay on the host."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import embedding

import proveout

TABLE = torch.randn(100, 32).bfloat16()
SMALL = torch.randint(0, 50, (2, 16), generator=torch.Generator().manual_seed(0))
LARGE = torch.cat([SMALL[:, :8], SMALL[:, 8:] + 2**40], 1)
"""Integers of which only the first eight columns fit 32 bits."""
MASK = torch.arange(32).reshape(2, 16) % 3


class Lambda(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def on_host(function, *inputs):
    """The ops that stay on the host, once the outputs are eager's to the bit."""
    torch._dynamo.reset()
    compiled = proveout.compile(Lambda(function), inputs)
    found, expected = compiled(*inputs), function(*inputs)
    for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True):
        assert (one.dtype, torch.equal(one, other)) == (other.dtype, True)
    return [op.aten for op in compiled.coverage.on_host]


def positions(ids):
    """As RoBERTa counts them: words that are no padding."""
    words = ids.ne(1).int()
    return (torch.cumsum(words, 1) * words).long() + 1


PROVEN = {
    "a view": (lambda t, i: t[i.view(-1)], SMALL),
    "a slice": (lambda t, i: embedding(i[:, :8], t), SMALL),
    "a sum": (lambda t, i: embedding(i + 2, t), SMALL),
    "a slice of a sum": (lambda t, i: embedding((i + 2)[:, 3:9], t), SMALL),
    "a sum of two": (lambda t, i, j: embedding(i + j, t), SMALL, SMALL),
    "a product": (lambda t, i: embedding(i[:, ::2] * 2, t), SMALL),
    "negative indices": (lambda t, i: t[(i - 20).view(-1)], SMALL),
    "another use of an index": (lambda t, i: (embedding(i, t), i.ne(1), i + 1), SMALL),
    "positions counted from ids": (lambda t, i: embedding(i, t) + embedding(positions(i), t), SMALL),
    "large numbers outside the slice": (lambda t, i: embedding(i[:, :8], t), LARGE),
    "large numbers that cancel": (lambda t, i, j: embedding(i - j, t), LARGE, LARGE - 3),
    "a lookup of indices": (lambda t, i, j: embedding(i.expand(2, -1).gather(1, j), t), SMALL[:1], SMALL % 16),
    "some rows of indices": (lambda t, i: embedding(i[:, torch.tensor([3, 1])], t), LARGE),
    "a cast that wraps": (lambda t, i: i.to(torch.int32) + 1, LARGE),
}


@pytest.mark.parametrize("name", PROVEN)
def test_proven(name):
    function, *indices = PROVEN[name]
    assert on_host(function, TABLE, *indices) == []


UNPROVEN = {
    "a sum that is returned": (lambda i: i + 1, ["aten.add.Tensor"]),
    "a view that is returned": (lambda i: i.view(-1), ["aten.view.default"]),
    "a comparison": (lambda i: i[:, 1:] == 3, ["aten.slice.Tensor", "aten.eq.Scalar"]),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_unproven(name):
    function, ops = UNPROVEN[name]
    assert on_host(function, LARGE) == ops


X = torch.randn(2, 1, 4, 16)
CASTS = {
    "a mask as numbers": lambda m, x: x + (1 - m[:, None, None, :].to(x.dtype)) * -10,
    "a mask as truth": lambda m, x: x.masked_fill(m[:, None, None, :].to(torch.bool), 3),
    "a mask promoted": lambda m, x: m.reshape(2, 1, 1, 16) * x,
    "two casts": lambda m, x: (x + m[:, None, None].to(x.dtype), m[:, None].to(torch.bool)),
    "bfloat16": lambda m, x: m[:, 2:].to(torch.bfloat16) * 2,
    "no view": lambda m, x: m.to(torch.float32) * 2,
}


@pytest.mark.parametrize("mask", [MASK, LARGE * 2**20], ids=["small", "large"])
@pytest.mark.parametrize("name", CASTS)
def test_a_cast_is_taken_before_the_views(name, mask):
    assert on_host(CASTS[name], mask, X) == []


def test_a_view_that_is_also_read_as_integers_stays():
    def both(mask, x):
        view = mask[:, None, None, :]
        return x + view.to(x.dtype), view + 1

    assert "aten.unsqueeze.default" in on_host(both, LARGE, X)


def test_statistics_of_a_bfloat16_layer_norm_are_as_near_as_eagers():
    """Eager sums in another order than torch.mean, so that one value in thousands rounds the other way."""
    draw = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(shape, generator=draw).bfloat16() for shape in ((2, 490, 96), (96,)))
    model = Lambda(lambda x, w: torch.ops.aten.native_layer_norm(x, [96], w, w, 1e-5)[1:])
    compiled = proveout.compile(model, (x, weight))
    exact = torch.ops.aten.native_layer_norm(x.double(), [96], None, None, 1e-5)[1:]
    for ours, eagers, truth in zip(compiled(x, weight), model(x, weight), exact, strict=True):
        assert ours.dtype == eagers.dtype
        assert (ours - truth).norm() <= (eagers - truth).norm() * 1.001
    assert not compiled.coverage.on_host
