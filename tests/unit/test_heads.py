"""Heads: however a model cuts and joins them, ttnn's calls for it take their place, and the numbers stay."""

from __future__ import annotations

import random
from math import prod

import pytest
import torch
from torch import nn

import proveout
from proveout.compiler.program_passes.views import View

SPLIT = "ttnn.transformer.split_query_key_value_and_split_heads"
JOIN = "ttnn.transformer.concatenate_heads"
MOVES = {"ttnn.permute", "ttnn.slice"}


# ---- views -------------------------------------------------------------------------------------------------------


def numbers(view, size):
    """A view's numbers, read from 0, 1, 2…: each dimension in turn, its factors from the outermost in."""
    places = torch.tensor([view.offset])
    for factors in view.dims:
        for count, stride in factors:
            places = (places[:, None] + torch.arange(count) * stride).flatten()
    return torch.arange(size)[places].reshape(view.shape)


def random_chain(seed):
    draw = random.Random(seed)
    x = torch.arange(prod(shape := (4, 6, 8)))
    x, view = x.reshape(shape), View.of(shape)
    for _ in range(6):
        kind = draw.choice(["permute", "reshape", "slice"])
        if kind == "permute":
            dims = tuple(draw.sample(range(x.ndim), x.ndim))
            x, view = x.permute(dims), view.permute(dims)
        elif kind == "reshape":
            shape = draw.choice(
                [(x.numel(),), (2, x.numel() // 2), (x.numel() // 4, 2, 2), (*x.shape, 1), (1, *x.shape)]
            )
            if prod(shape) == x.numel() and (after := view.reshape(shape)) is not None:
                x, view = x.reshape(shape), after
        elif x.shape[0] > 3:
            start, end = (1, *[0] * (x.ndim - 1)), (3, *x.shape[1:])
            if (after := view.slice(start, end)) is not None:
                x, view = x[1:3], after
    return x, view


@pytest.mark.parametrize("seed", range(60))
def test_a_view_says_where_a_chain_of_moves_puts_each_number(seed):
    x, view = random_chain(seed)
    assert view.shape == tuple(x.shape)
    assert torch.equal(numbers(view, 192), x)
    assert view.is_whole == (x.numel() == 192)
    assert view.in_order == torch.equal(x.flatten(), torch.arange(192)[: x.numel()]) or x.numel() < 192


@pytest.mark.parametrize("seed", range(60))
def test_a_whole_view_is_three_moves_at_most(seed):
    x, view = random_chain(seed)
    if not view.is_whole:
        return
    made = torch.arange(192).reshape(4, 6, 8)
    moves = list(view.moves((4, 6, 8)))
    for kernel, how in moves:
        made = made.reshape(how) if kernel == "ttnn.reshape" else made.permute(how)
    assert torch.equal(made, x)
    assert len(moves) <= 3


def test_a_part_from_the_front_is_not_the_whole():
    view = View.of((4, 8)).slice((0, 0), (1, 8))
    assert view is not None
    assert not view.is_whole
    assert not view.in_order


def test_a_dimension_that_begins_within_a_factor_cannot_be_told():
    assert View.of((4, 6)).permute((1, 0)).reshape((8, 3)) is None


# ---- models ------------------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Self-attention with its projections as `form` says."""

    def __init__(self, form, width=128, heads=4):
        super().__init__()
        self.form, self.heads, self.width = form, heads, width
        self.qkv = nn.Linear(width, 3 * width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, length, width = x.shape
        apart = (batch, length, self.heads, width // self.heads)
        if self.form == "three products":
            q, k, v = (p(x).view(apart).transpose(1, 2) for p in (self.q, self.k, self.v))
        elif self.form == "side by side":
            q, k, v = (t.reshape(apart).transpose(1, 2) for t in self.qkv(x).split(width, -1))
        elif self.form == "timm":
            q, k, v = self.qkv(x).reshape(batch, length, 3, *apart[2:]).permute(2, 0, 3, 1, 4)
        else:  # "in each head", as GPT-NeoX and BLOOM have it
            q, k, v = self.qkv(x).view(batch, length, self.heads, -1).transpose(1, 2).chunk(3, -1)
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.o(out.transpose(1, 2).reshape(x.shape))


class Torchs(nn.Module):
    def __init__(self, batch_first, width=128, heads=4, **how):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=batch_first)
        self.how = how

    def forward(self, x):
        return self.attention(x, x, x, **self.how)[0]


FORMS = {
    "three products": lambda: Attention("three products"),
    "side by side": lambda: Attention("side by side"),
    "timm": lambda: Attention("timm"),
    "in each head": lambda: Attention("in each head"),
    "nn.MultiheadAttention": lambda: Torchs(True, need_weights=False),
    "nn.MultiheadAttention, weights not used": lambda: Torchs(True),
}


def compiled(model, x, precision="bfloat16", **settings):
    torch._dynamo.reset()
    made = proveout.compile(model.eval(), (x,), settings={"precision": precision, "verify": True, **settings})
    with torch.no_grad():
        out, eager = made(x), model(x)
    kernels = [s.kernel for p in made.programs for s in p.body]
    tolerance = 1e-4 if precision == "model" else 0.05 * eager.abs().max().item()
    torch.testing.assert_close(out, eager, rtol=0, atol=tolerance)
    return kernels


@pytest.mark.parametrize("precision", ["model", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_heads_are_cut_and_joined_by_ttnns_own_calls(form, precision):
    torch.manual_seed(0)
    kernels = compiled(FORMS[form](), torch.randn(2, 40, 128), precision)  # 40: no multiple of a tile
    assert kernels.count(SPLIT) == kernels.count(JOIN) == 1
    assert not MOVES & set(kernels)


def test_a_sequence_of_batches_is_turned_once():
    torch.manual_seed(0)
    kernels = compiled(Torchs(False), torch.randn(40, 2, 128))
    assert kernels.count(SPLIT) == 1
    assert "ttnn.slice" not in kernels


@pytest.mark.parametrize("form", ["three products", "side by side", "timm", "in each head"])
@pytest.mark.parametrize("heads", [8, 16], ids=["heads of 16", "heads of 8"])
def test_heads_of_less_than_a_tile_are_filled_up_in_the_weights(heads, form):
    torch.manual_seed(0)
    kernels = compiled(Attention(form, heads=heads), torch.randn(2, 40, 128))
    assert kernels.count(SPLIT) == kernels.count(JOIN) == 1
    assert not (MOVES | {"ttnn.pad"}) & set(kernels)


@pytest.mark.parametrize("trace", [False, True])  # in a trace moves are planned in rows
def test_small_heads_of_torchs_own_attention_are_filled_up_in_the_weights(trace):
    torch.manual_seed(0)
    model, x = Torchs(True, width=64, heads=4, need_weights=False), torch.randn(2, 64, 64)
    kernels = compiled(model, x, trace=trace)
    assert kernels.count(SPLIT) == kernels.count(JOIN) == 1
    assert not (MOVES | {"ttnn.pad"}) & set(kernels)


def test_small_heads_whose_weights_are_in_a_block_format_are_filled_at_every_call():
    torch.manual_seed(0)
    model, x = Attention("three products", heads=8).eval(), torch.randn(2, 40, 128)
    made = proveout.compile(model, (x,), settings={"precision": "bfloat16", "weights": "bfloat8_b", "verify": True})
    assert SPLIT not in [s.kernel for p in made.programs for s in p.body]
    with torch.no_grad():
        torch.testing.assert_close(made(x), model(x), rtol=0, atol=0.05 * model(x).abs().max().item())


class ShorterValues(Attention):
    """Values of half the queries' length, as latent attention has them: results are cut from longer heads."""

    def __init__(self, width=128, heads=2):
        super().__init__("three products", width, heads)
        self.v, self.o = nn.Linear(width, width // 2), nn.Linear(width // 2, width)

    def forward(self, x):
        apart = (*x.shape[:2], self.heads, -1)
        q, k, v = (p(x).view(apart).transpose(1, 2) for p in (self.q, self.k, self.v))
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.o(out.transpose(1, 2).reshape(*x.shape[:2], -1))


def test_heads_cut_from_longer_ones_are_right():
    torch.manual_seed(0)
    compiled(ShorterValues(), torch.randn(2, 40, 128))


class Strange(Attention):
    """Nearly heads."""

    def forward(self, x):
        batch, length, width = x.shape
        apart = (batch, length, self.heads, width // self.heads)
        q, k, v = (p(x) for p in (self.q, self.k, self.v))
        if self.form == "values read twice":
            heads = [t.view(apart).transpose(1, 2) for t in (q, k, v)]
            return nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(x.shape) + v
        if self.form == "heads from every fourth column":
            heads = [t.view(batch, length, -1, self.heads).permute(0, 3, 1, 2) for t in (q, k, v)]
        else:  # values of another sequence order
            heads = [t.view(apart).transpose(1, 2) for t in (q, k, v)]
            heads[2] = v.view(batch, self.heads, length, -1)
        return nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(x.shape)


@pytest.mark.parametrize("form", ["values read twice", "heads from every fourth column", "values in another order"])
@pytest.mark.parametrize("heads", [4, 8])
def test_what_is_nearly_heads_stays_and_is_right(form, heads):
    torch.manual_seed(0)
    assert SPLIT not in compiled(Strange(form, heads=heads), torch.randn(2, 32, 128))


def test_a_linear_between_two_orders_of_rows_is_a_linear():
    """What a transpose before a Linear and one after it do to rows cancels."""

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(64, 96), nn.Linear(96, 64)

        def forward(self, x):
            y = self.second(nn.functional.gelu(self.first(x.relu().transpose(0, 1))))
            return y.transpose(0, 1) + x

    kernels = compiled(Turned(), torch.randn(4, 50, 64))
    assert not {"ttnn.permute", "ttnn.reshape"} & set(kernels)


def test_patches_of_a_convolution_are_one_reshape():
    """Channels first, flattened, channels last: the numbers of ttnn's own result, in its own order."""

    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 32, 8, 8)

        def forward(self, x):
            return self.patch(x).flatten(2).transpose(1, 2)

    kernels = compiled(Patches(), torch.randn(2, 3, 32, 32))
    after = kernels[kernels.index("ttnn.conv2d") :]
    assert "ttnn.permute" not in after
    assert after.count("ttnn.reshape") == 1


def test_a_number_without_dimensions_has_no_heads_and_no_rows():
    class Number(torch.nn.Module):
        def forward(self, x, y):
            return x.amax() * y.reshape(1, 1, 1), torch.dot(y, y).reshape(1, 1).relu(), x.argmax()

    model, inputs = Number(), (torch.randn(4, 32), torch.randn(1))
    outputs = proveout.compile(model, inputs, device="sim:n150")(*inputs)
    assert all(torch.allclose(a, b, atol=1e-2) for a, b in zip(outputs, model(*inputs)))
