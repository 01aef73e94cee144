"""Attention with dropout under `bfloat16`: float32 inside, as eager's own, in both directions; by hand, as written."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from proveout.engine.backend import Capture

SEED, DROPPED = 3, 0.3


def attend(q, k, v, causal=False):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=DROPPED, is_causal=causal)


def by_hand(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return F.dropout(scores.softmax(-1), DROPPED) @ v


def operands(dtype):
    torch.manual_seed(1)
    drawn = (torch.randn(2, 2, n, 32).bfloat16() for n in (24, 32, 32))
    return [t.to(dtype).requires_grad_() for t in drawn]


def results(function, dtype):
    """The output, and the gradients of the operands."""
    q, k, v = operands(dtype)
    torch.manual_seed(SEED)
    out = function(q, k, v)
    weight = torch.linspace(-1, 1, out.numel()).reshape(out.shape).bfloat16().to(dtype)
    (out * weight).sum().backward()
    return [t.detach().double() for t in (out, q.grad, k.grad, v.grad)]


def compiled(function):
    torch._dynamo.reset()
    backend = Capture.of("sim", {"precision": "bfloat16", "fallback": "host"}, keep=True)
    return torch.compile(function, backend=backend), backend


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_dropout_is_as_near_as_eagers_bfloat16_in_both_directions(causal):
    def function(q, k, v):
        return attend(q, k, v, causal)

    ours = results(compiled(function)[0], torch.float32)
    eagers, exact = (results(function, dtype) for dtype in (torch.bfloat16, torch.float64))
    for name, a, b, truth in zip(("out", "q", "k", "v"), ours, eagers, exact, strict=True):
        assert (a - truth).abs().mean() <= 1.1 * (b - truth).abs().mean(), name


def test_attention_written_by_hand_is_rounded_after_every_op_as_in_eager():
    model, backend = compiled(by_hand)
    results(model, torch.float32)
    held = {s.dtype for g in backend.compiled for n, s in g.program.specs.items() if n.startswith("bmm")}
    assert held == {"bfloat16"}


class Angles(torch.nn.Module):
    """A step of diffusion and a rotary embedding, as models write them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", (1e4 ** -(torch.arange(16) / 16)).bfloat16().float())

    def forward(self, step, positions, x):
        step = step[:, None].float() * self.frequencies.float()
        turned = (self.frequencies[:, None].float() @ positions[None].float()).T
        return torch.cat([step.sin(), step.cos()], -1).to(x.dtype), turned.cos().to(x.dtype) * x


def test_angles_that_are_counted_are_no_further_off_than_eagers():
    """diffusers' PixArt: 8 times as far off as eager's bfloat16, by a sine of 500 radians that was rounded to 2."""
    model, x = Angles(), torch.linspace(0.5, 1, 48).reshape(3, 16).bfloat16()
    counted = torch.tensor([501, 963]), torch.tensor([3, 777, 4001])
    ours = compiled(model)[0](*counted, x.float())
    eagers, exact = (model.to(dtype)(*counted, x.to(dtype)) for dtype in (torch.bfloat16, torch.float64))
    for a, b, truth in zip(ours, eagers, exact, strict=True):
        assert (a - truth).abs().mean() <= 1.25 * (b - truth).abs().mean()
