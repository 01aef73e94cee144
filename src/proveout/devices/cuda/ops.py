"""The fused calls that Programs are rewritten to for a GPU, as PyTorch ops: what each means, and its form for tracing.

On a CPU the meaning itself runs; on a GPU `launch` has candidates, and the fastest one for a shape is used. All numbers
between the roundings of operands and results are float32.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor

STATS_WIDTH = 64
"""Columns that one pair of moments stands for."""
FLOAT8 = torch.float8_e4m3fn
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
_LIBRARY = torch.library.Library("proveout", "FRAGMENT")


@functools.cache
def _launches() -> Any:
    """Imported when a GPU is used: it needs Triton."""
    return importlib.import_module("proveout.devices.cuda.launch")


def op(schema: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Register a meaning as an op. `launch` has a function of the same name for tensors on a GPU, unless the meaning is
    only for weights. `custom_op` would do the same at several times the cost of a call."""
    name = schema.partition("(")[0]

    def register(meaning: Callable[..., Any]) -> Any:
        def call(*operands: Any) -> Any:
            if operands[0].is_cuda:
                return getattr(_launches(), name, meaning)(*operands)
            return meaning(*operands)

        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        _LIBRARY.impl(name, call, "CompositeExplicitAutograd")
        torch.library.register_fake(f"proveout::{name}", fake, lib=_LIBRARY)
        return getattr(torch.ops.proveout, name)

    return register


# --- products -----------------------------------------------------------------------------------------------------


def moments(x: Tensor) -> Tensor:
    """[row, block of columns, (mean, sum of squares about it)] in float32."""
    blocks = x.float().unflatten(-1, (-1, STATS_WIDTH))
    mean = blocks.mean(-1)
    return torch.stack((mean, (blocks - mean[..., None]).square().sum(-1)), -1)


def joined(stats: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation of whole rows, from `moments`."""
    means, squares = stats.unbind(-1)
    mean = means.mean(-1, keepdim=True)
    spread = squares.sum(-1, keepdim=True) + STATS_WIDTH * (means - mean).square().sum(-1, keepdim=True)
    return mean, torch.rsqrt(spread / (means.shape[-1] * STATS_WIDTH) + eps)


def finished(
    total: Tensor, bias: Tensor | None, activation: str, residual: Tensor | None, second: Tensor | None
) -> Tensor:
    """What comes after the sums of a product, in float32."""
    if bias is not None:
        total = total + bias.float()
    total = ACTIVATIONS[activation](total)
    for other in (residual, second):
        if other is not None:
            total = total + other.float()
    return total


def product_meaning(
    a: Tensor,
    w: Tensor,
    bias: Tensor | None,
    activation: str,
    residual: Tensor | None,
    second: Tensor | None,
    a_stats: Tensor | None,
    columns: Tensor | None,
    a_eps: float,
    r_stats: Tensor | None,
    r_gamma: Tensor | None,
    r_beta: Tensor | None,
    r_eps: float,
    stats: bool,
) -> tuple[Tensor, Tensor]:
    """residual + second + activation(norm(a) @ w + bias), and the moments of its rows.

    Where `a_stats` are given, a's rows are normalised; gamma and beta are in w and bias already, and `columns` are w's
    column sums. Where `r_stats` are given, the residual is layer-normalised with r_gamma and r_beta.
    """
    if a_stats is not None:
        mean, scale = joined(a_stats, a_eps)
        a = ((a.float() - mean) * scale).to(a.dtype)
    if residual is not None and r_stats is not None:
        assert r_gamma is not None
        assert r_beta is not None
        mean, scale = joined(r_stats, r_eps)
        residual = (residual.float() - mean) * scale * r_gamma.float() + r_beta.float()
    y = finished((a @ w).float(), bias, activation, residual, second).to(a.dtype)
    return y, moments(y) if stats else y.new_empty(0, dtype=torch.float32)


def _product_form(a, w, *rest):  # type: ignore[no-untyped-def]
    shape = (a.shape[0], w.shape[1] // STATS_WIDTH, 2) if rest[-1] else (0,)
    return a.new_empty(a.shape[0], w.shape[1]), a.new_empty(shape, dtype=torch.float32)


product = op(
    "product(Tensor a, Tensor w, Tensor? bias, str activation, Tensor? residual, Tensor? second, Tensor? a_stats, "
    "Tensor? columns, float a_eps, Tensor? r_stats, Tensor? r_gamma, Tensor? r_beta, float r_eps, bool stats)"
    " -> (Tensor, Tensor)",
    _product_form,
)(product_meaning)


def fold_norm_meaning(w: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A layer norm's gamma and beta in the product after it: weights, their column sums, bias; once for each weight."""
    folded = (w.float() * gamma.float()[:, None]).to(w.dtype)
    moved = beta.float() @ w.float()
    return folded, folded.float().sum(0), moved if bias is None else moved + bias.float()


def _fold_norm_form(w, bias, gamma, beta):  # type: ignore[no-untyped-def]
    row = w.new_empty(w.shape[1], dtype=torch.float32)
    return torch.empty_like(w), row, torch.empty_like(row)


fold_norm = op(
    "fold_norm(Tensor w, Tensor? bias, Tensor gamma, Tensor beta) -> (Tensor, Tensor, Tensor)", _fold_norm_form
)(fold_norm_meaning)


def averaged(a: Tensor, positions: int) -> Tensor:
    """The means of rows that follow each other, as a global pool of channels-last images has them."""
    return a if positions == 1 else a.unflatten(0, (-1, positions)).float().mean(1).to(a.dtype)


def vector_meaning(
    a: Tensor,
    w: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    activation: str,
    residual: Tensor | None,
    second: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    eps: float,
    positions: int = 1,
) -> Tensor:
    """residual + second + activation(norm(a) @ w + bias) of a few rows. `w` has its columns one after another in
    memory (`columns`); with `scale`, it is in 8 bits and each column has its factor. A row is the mean of
    `positions` rows of `a`."""
    a = averaged(a, positions)
    x = a if gamma is None else F.layer_norm(a, a.shape[-1:], gamma, beta, eps)
    total = x.float() @ w.float()
    return finished(total if scale is None else total * scale, bias, activation, residual, second).to(a.dtype)


vector = op(
    "vector(Tensor a, Tensor w, Tensor? scale, Tensor? bias, str activation, Tensor? residual, Tensor? second, "
    "Tensor? gamma, Tensor? beta, float eps, int positions) -> Tensor",
    lambda a, w, *rest: a.new_empty(a.shape[0] // rest[-1], w.shape[1]),
)(vector_meaning)


def columns_meaning(w: Tensor) -> Tensor:
    """A copy of a matrix whose columns lie one after another, as a product of a few rows reads it."""
    return w.t().clone(memory_format=torch.contiguous_format).t()


def _columns_form(w):  # type: ignore[no-untyped-def]
    return w.new_empty(w.shape[1], w.shape[0]).t()


columns = op("columns(Tensor w) -> Tensor", _columns_form)(columns_meaning)


def pack_meaning(w: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """A matrix in 8 bits (`int8` or `float8`), columns one after another, and the factor of each column."""
    largest = 127.0 if dtype == "int8" else torch.finfo(FLOAT8).max
    scale = w.float().abs().amax(0).clamp(min=1e-12) / largest
    scaled = (w.float() / scale).t().contiguous()
    packed = scaled.round().to(torch.int8) if dtype == "int8" else scaled.to(FLOAT8)
    return packed.t(), scale


def _pack_form(w, dtype):  # type: ignore[no-untyped-def]
    packed = w.new_empty(w.shape[1], w.shape[0], dtype=torch.int8 if dtype == "int8" else FLOAT8)
    return packed.t(), w.new_empty(w.shape[1], dtype=torch.float32)


pack = op("pack(Tensor w, str dtype) -> (Tensor, Tensor)", _pack_form)(pack_meaning)


def row_scales(a: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in float8, and their factors."""
    scale = a.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / torch.finfo(FLOAT8).max
    return (a.float() / scale).to(FLOAT8), scale


def scaled_meaning(
    a: Tensor,
    w: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    activation: str,
    residual: Tensor | None,
    second: Tensor | None,
) -> Tensor:
    """As `vector`, with rows in float8 too, each with its factor."""
    rows, factors = row_scales(a)
    total = rows.float() @ w.float() * factors * scale
    return finished(total, bias, activation, residual, second).to(a.dtype)


scaled = op(
    "scaled(Tensor a, Tensor w, Tensor scale, Tensor? bias, str activation, Tensor? residual, Tensor? second)"
    " -> Tensor",
    lambda a, w, *rest: a.new_empty(a.shape[0], w.shape[1]),
)(scaled_meaning)


def norm_meaning(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    """A layer norm of rows."""
    return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)


norm = op("norm(Tensor x, Tensor gamma, Tensor beta, float eps) -> Tensor", lambda x, *rest: x.new_empty(x.shape))(
    norm_meaning
)


def _laid_as(w: Tensor, like: Tensor) -> Tensor:
    return columns_meaning(w) if like.stride(0) == 1 else w


def abreast_meaning(
    first: Tensor, second: Tensor, first_bias: Tensor | None, second_bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Weights and bias of two products of one operand as those of one, columns side by side."""
    biases = ((first, first_bias), (second, second_bias))
    parts = [w.new_zeros(w.shape[1], dtype=torch.float32) if bias is None else bias.float() for w, bias in biases]
    return _laid_as(torch.cat((first, second), 1), first), torch.cat(parts)


def _abreast_form(first, second, *biases):  # type: ignore[no-untyped-def]
    n = first.shape[1] + second.shape[1]
    return _laid_as(first.new_empty(first.shape[0], n), first), first.new_empty(n, dtype=torch.float32)


abreast = op(
    "abreast(Tensor first, Tensor second, Tensor? first_bias, Tensor? second_bias) -> (Tensor, Tensor)", _abreast_form
)(abreast_meaning)


def stacked_meaning(
    first: Tensor, second: Tensor, first_bias: Tensor | None, second_bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Weights and bias of two products whose results are added as those of one, over both inner dimensions."""
    bias = first.new_zeros(first.shape[1], dtype=torch.float32)
    for one in (first_bias, second_bias):
        bias = bias if one is None else bias + one.float()
    return _laid_as(torch.cat((first, second), 0), first), bias


def _stacked_form(first, second, *biases):  # type: ignore[no-untyped-def]
    k, n = first.shape[0] + second.shape[0], first.shape[1]
    return _laid_as(first.new_empty(k, n), first), first.new_empty(n, dtype=torch.float32)


stacked = op(
    "stacked(Tensor first, Tensor second, Tensor? first_bias, Tensor? second_bias) -> (Tensor, Tensor)", _stacked_form
)(stacked_meaning)


# --- attention ----------------------------------------------------------------------------------------------------


def heads_last(q: Tensor) -> Tensor:
    """An empty result of attention, which lies in memory as [batch, queries, heads, depth]: as the product after it
    reads it."""
    batch, heads, queries, depth = q.shape
    return q.new_empty(batch, queries, heads, depth).transpose(1, 2)


def attention_of(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=grouped)


def turned(x: Tensor, cos: Tensor, sin: Tensor, turn: str) -> Tensor:
    """The first elements of [batch, heads, rows, depth] turned by tables of [rows, angles]: x cos + partner sin, where
    partners are (-x1, x0) of each pair (`pairs`) or (-second half, first half) (`halves`)."""
    angles = cos.shape[-1]
    head = x[..., :angles].float()
    if turn == "pairs":
        partner = torch.stack((-head[..., 1::2], head[..., ::2]), -1).flatten(-2)
    else:
        partner = torch.cat((-head[..., angles // 2 :], head[..., : angles // 2]), -1)
    return torch.cat(((head * cos.float() + partner * sin.float()).to(x.dtype), x[..., angles:]), -1)


def attention_meaning(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    turn: str = "",
) -> Tensor:
    """Of [batch, heads, queries, depth]; with tables, queries and keys are `turned` first."""
    if cos is not None and sin is not None:
        q, k = turned(q, cos, sin, turn), turned(k, cos, sin, turn)
    result = attention_of(q, k, v, mask, causal, scale)
    return result if result.transpose(1, 2).is_contiguous() else heads_last(q).copy_(result)


attention = op(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale, Tensor? cos, Tensor? sin, "
    "str turn) -> Tensor",
    lambda q, *rest: heads_last(q),
)(attention_meaning)


class Branches:
    """Where the parts of `branches` lie, in one matrix of rows: the result of attention and the hidden columns, which
    are what the caller gets, then queries, keys and values where they `start` among the product's columns."""

    def __init__(self, like: Tensor, columns: int, starts: list[int], sizes: list[int]) -> None:
        batch, heads, shared, depth = sizes
        self.mixed, self.hidden = heads * depth, columns - (heads + 2 * shared) * depth
        whole = like.new_empty(like.shape[0], self.mixed + columns)
        self.result = whole[:, : self.mixed + self.hidden]
        self.product = whole[:, self.mixed :]
        self.attention = self._heads(whole, 0, batch, heads, depth)
        counts = (heads, shared, shared)
        self.q, self.k, self.v = (self._heads(self.product, s, batch, n, depth) for s, n in zip(starts, counts))

    @staticmethod
    def _heads(rows: Tensor, start: int, batch: int, heads: int, depth: int) -> Tensor:
        part = rows[:, start : start + heads * depth]
        return part.unflatten(1, (heads, depth)).unflatten(0, (batch, -1)).transpose(1, 2)


def branches_meaning(
    a: Tensor,
    w: Tensor,
    bias: Tensor | None,
    activation: str,
    a_stats: Tensor | None,
    columns: Tensor | None,
    a_eps: float,
    starts: list[int],
    sizes: list[int],
    mask: Tensor | None,
    causal: bool,
    scale: float,
    cos: Tensor | None,
    sin: Tensor | None,
    turn: str,
) -> Tensor:
    """Attention and a feed-forward's hidden rows side by side, of one product of the same rows: its first columns are
    the hidden ones, with the activation; then come queries, keys and values, which begin at `starts`. `sizes` are
    batch, heads, heads of keys and values, and depth. `a_stats`, `columns` and `a_eps` are as in `product`."""
    parts = Branches(a, w.shape[1], starts, sizes)
    for part, act in ((slice(parts.hidden), activation), (slice(parts.hidden, None), "")):
        own = (None if bias is None else bias[part]), act, None, None
        norm = a_stats, (None if columns is None else columns[part]), a_eps
        parts.product[:, part] = product_meaning(a, w[:, part], *own, *norm, None, None, None, 0.0, False)[0]
    parts.attention.copy_(attention_meaning(parts.q, parts.k, parts.v, mask, causal, scale, cos, sin, turn))
    return parts.result


branches = op(
    "branches(Tensor a, Tensor w, Tensor? bias, str activation, Tensor? a_stats, Tensor? columns, float a_eps, "
    "int[] starts, int[] sizes, Tensor? mask, bool causal, float scale, Tensor? cos, Tensor? sin, str turn) -> Tensor",
    lambda a, w, *rest: Branches(a, w.shape[1], rest[5], rest[6]).result,
)(branches_meaning)


def append_meaning(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, position: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """Write new keys and values to a static cache at their positions, and attend to all of it."""
    keys.index_copy_(2, position, k)
    values.index_copy_(2, position, v)
    return attention_meaning(q, keys, values, mask, False, scale)


append = op(
    "append(Tensor q, Tensor k, Tensor v, Tensor(a!) keys, Tensor(b!) values, Tensor position, Tensor? mask, "
    "float scale) -> Tensor",
    lambda q, *rest: heads_last(q),
)(append_meaning)


# --- convolutions -------------------------------------------------------------------------------------------------


def fold_conv_meaning(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Filters as a matrix [height * width * channels, filters] with the batch norm after them inside, and a bias."""
    filters, shift = weight.float(), torch.zeros(weight.shape[0], dtype=torch.float32, device=weight.device)
    if bias is not None:
        shift = shift + bias.float().reshape(-1)
    if mean is not None and variance is not None:
        scale = torch.rsqrt(variance.float().reshape(-1) + eps)
        if gamma is not None:
            scale = scale * gamma.float().reshape(-1)
        filters, shift = filters * scale[:, None, None, None], (shift - mean.float().reshape(-1)) * scale
        if beta is not None:
            shift = shift + beta.float().reshape(-1)
    return filters.permute(2, 3, 1, 0).reshape(-1, weight.shape[0]).to(weight.dtype).contiguous(), shift.contiguous()


def _fold_conv_form(weight, *rest):  # type: ignore[no-untyped-def]
    filters = weight.shape[0]
    return weight.new_empty(weight.numel() // filters, filters), weight.new_empty(filters, dtype=torch.float32)


fold_conv = op(
    "fold_conv(Tensor weight, Tensor? bias, Tensor? mean, Tensor? variance, Tensor? gamma, Tensor? beta, float eps)"
    " -> (Tensor, Tensor)",
    _fold_conv_form,
)(fold_conv_meaning)


def fold_beside_meaning(w: Tensor, bias: Tensor, other: Tensor, other_bias: Tensor) -> tuple[Tensor, Tensor]:
    """Filters and bias of a convolution and of the 1 x 1 convolution that is added to it, as one matrix."""
    return torch.cat((w, other)), bias + other_bias


fold_beside = op(
    "fold_beside(Tensor w, Tensor bias, Tensor other, Tensor other_bias) -> (Tensor, Tensor)",
    lambda w, bias, other, _: (w.new_empty(w.shape[0] + other.shape[0], w.shape[1]), torch.empty_like(bias)),
)(fold_beside_meaning)


MOST_SPOTS = 31
"""Positions of a window that our kernel for slices of channels serves: it has a bit for each."""


def conv_size(size: int, window: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (window - 1) - 1) // stride + 1


def conv_meaning(
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    activation: str,
    image: list[int],
    window: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    beside: Tensor | None = None,
    steps: Sequence[int] = (1, 1),
) -> Tensor:
    """activation(convolution of x + bias + residual), flattened as ttnn has it: [1, 1, positions, channels]; `image` is
    [batch, height, width, channels] and w is `fold_conv`'s matrix. With `beside`, an image too, a 1 x 1 convolution of
    every `steps`-th of its positions is added: w is `fold_beside`'s then."""
    batch, height, width, channels = image
    own = window[0] * window[1] * channels
    filters = w[:own].reshape(*window, channels, -1).permute(3, 2, 0, 1)
    picture = x.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
    y = F.conv2d(picture, filters, None, stride, padding, dilation).permute(0, 2, 3, 1).reshape(-1, w.shape[1])
    total = y.float() + bias
    if beside is not None:
        spots = beside[:, :: steps[0], :: steps[1]].reshape(total.shape[0], -1)
        total = total + (spots @ w[own:]).float()
    if residual is not None:
        total = total + residual.reshape(total.shape).float()
    return ACTIVATIONS[activation](total).to(x.dtype).reshape(1, 1, -1, w.shape[1]).contiguous()


def _conv_form(x, w, bias, residual, activation, image, *sizes):  # type: ignore[no-untyped-def]
    height, width = (conv_size(*one) for one in zip(image[1:3], *sizes[:4]))
    return x.new_empty(1, 1, image[0] * height * width, w.shape[1])


conv = op(
    "conv(Tensor x, Tensor w, Tensor bias, Tensor? residual, str activation, int[] image, int[] window, int[] stride, "
    "int[] padding, int[] dilation, Tensor? beside, int[] steps) -> Tensor",
    _conv_form,
)(conv_meaning)


def pool_meaning(
    x: Tensor, image: list[int], window: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> Tensor:
    """The largest of each window, flattened as `conv` does it."""
    picture = x.reshape(image).permute(0, 3, 1, 2)
    y = F.max_pool2d(picture, window, stride, padding, dilation)
    return y.permute(0, 2, 3, 1).reshape(1, 1, -1, image[3]).contiguous()


def _pool_form(x, image, *sizes):  # type: ignore[no-untyped-def]
    height, width = (conv_size(*one) for one in zip(image[1:3], *sizes))
    return x.new_empty(1, 1, image[0] * height * width, image[3])


pool = op(
    "pool(Tensor x, int[] image, int[] window, int[] stride, int[] padding, int[] dilation) -> Tensor", _pool_form
)(pool_meaning)
