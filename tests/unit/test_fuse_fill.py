"""A prompt goes into the cache by ttnn's own call, and what lies behind it stays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from proveout.engine.compiled import compile as compile_model
from proveout.engine.residence import Residence

FILL = "ttnn.fill_cache"
LENGTH = 2048


class Cached(nn.Module):
    """Puts what it is given into the first positions, and shows them all at its next call."""

    def __init__(self, users):
        super().__init__()
        self.register_buffer("cache", torch.arange(users * 2 * LENGTH * 32.0).reshape(users, 2, LENGTH, 32) % 100)

    def forward(self, new):
        self.cache[:, :, : new.shape[2]].copy_(new)
        return new + 1


class Shown(nn.Module):
    def __init__(self, cached):
        super().__init__()
        self.cache = cached.cache

    def forward(self, x):
        return self.cache + x


CASES = [
    ("bfloat16", 1, 32, 1),
    ("model", 1, 32, 1),
    ("bfloat16", 3, 64, 3),
    ("bfloat16", 1, LENGTH, 0),
    ("model", 1, 40, 0),
]


@pytest.mark.parametrize(("precision", "users", "length", "fills"), CASES)
def test_a_prompt_in_whole_tiles_is_filled_in_for_each_user(precision, users, length, fills):
    torch._dynamo.reset()
    model = Cached(users)
    kept = Residence([model.cache])
    expected = model.cache.clone()
    new = -torch.ones(users, 2, length, 32)
    shown = compile_model(Shown(model), (torch.zeros(1),), device="sim:n150", residence=kept)
    filled = compile_model(
        model, (new,), device="sim:n150", settings={"precision": precision, "trace": True}, residence=kept
    )
    assert sum(step.kernel == FILL for step in filled.program.body) == fills
    filled(new)
    expected[:, :, :length] = new
    torch.testing.assert_close(shown(torch.zeros(1)), expected, rtol=0, atol=0)
