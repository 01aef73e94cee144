"""A decoder's rows of several users share their tiles, and are the numbers that they were."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from proveout.compiler.program_passes import fuse_flat
from proveout.engine.compiled import compile as compile_model
from proveout.kernels.table import kind_of


class Layers(nn.Module):
    """Norms, products and sums of one row for each user, as between a decoder's attentions."""

    def __init__(self, norm):
        super().__init__()
        self.words = nn.Embedding(64, 256)
        self.norms = nn.ModuleList([norm(256) for _ in range(3)])
        self.up, self.down = nn.Linear(256, 512), nn.Linear(512, 256, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for norm in self.norms:
            x = x + self.down(nn.functional.silu(self.up(norm(x))) * 2)
        return x


def compiled(users, norm, precision, length=1):
    torch._dynamo.reset()
    torch.manual_seed(0)
    tokens = torch.arange(users * length).view(users, length)
    result = compile_model(Layers(norm).eval(), (tokens,), settings={"precision": precision})
    return result.program, result(tokens)


def wasted(program):
    """Steps of one operand's shape that have a tile for each row."""
    return [
        step
        for step in program.body
        if kind_of(step) in ("norm", "binary", "unary") and program.specs[step.outputs[0]].shape[-2:-1] == (1,)
        and math.prod(program.specs[step.outputs[0]].shape[:-2]) > 1
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("users", "norm", "precision"), [(32, nn.RMSNorm, "bfloat16"), (5, nn.LayerNorm, "model")], ids=str
)
def test_users_share_tiles_between_products(users, norm, precision, monkeypatch, tmp_path):
    program, output = compiled(users, norm, precision)
    assert not wasted(program)
    assert sum(s.kernel == "ttnn.reshape" for s in program.body) <= 3, "at the ends alone"
    monkeypatch.setattr(fuse_flat, "BY_ROW", ())
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path))
    before, expected = compiled(users, norm, precision)
    assert len(wasted(before)) >= 5
    torch.testing.assert_close(output, expected, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(1, 1), (2, 32)])
def test_one_user_and_whole_tiles_stay_as_they_are(shape, monkeypatch, tmp_path):
    program, _ = compiled(shape[0], nn.RMSNorm, "bfloat16", shape[1])
    monkeypatch.setattr(fuse_flat, "BY_ROW", ())
    monkeypatch.setenv("PROVEOUT_CACHE", str(tmp_path))
    before, _ = compiled(shape[0], nn.RMSNorm, "bfloat16", shape[1])
    assert [s.kernel for s in program.body] == [s.kernel for s in before.body]
