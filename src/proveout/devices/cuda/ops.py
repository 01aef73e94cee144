"""The fused calls that Programs are rewritten to for a GPU, as PyTorch ops: what each means, and its form for tracing.

On a CPU the meaning itself runs; on a GPU `launch` has candidates, and the fastest one for a shape is used. All numbers
between the roundings of operands and results are float32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.library import custom_op

Tensor = torch.Tensor

STATS_WIDTH = 64
"""Columns that one pair of moments stands for."""
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


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
    total = (a @ w).float()
    if bias is not None:
        total = total + bias.float()
    total = ACTIVATIONS[activation](total)
    if residual is not None:
        value = residual.float()
        if r_stats is not None:
            assert r_gamma is not None
            assert r_beta is not None
            mean, scale = joined(r_stats, r_eps)
            value = (value - mean) * scale * r_gamma.float() + r_beta.float()
        total = total + value
    if second is not None:
        total = total + second.float()
    y = total.to(a.dtype)
    return y, moments(y) if stats else y.new_empty(0, dtype=torch.float32)


@custom_op(
    "proveout::product",
    mutates_args=(),
    schema="(Tensor a, Tensor w, Tensor? bias, str activation, Tensor? residual, Tensor? second, Tensor? a_stats, "
    "Tensor? columns, float a_eps, Tensor? r_stats, Tensor? r_gamma, Tensor? r_beta, float r_eps, bool stats)"
    " -> (Tensor, Tensor)",
)
def product(
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
    given = a, w, bias, activation, residual, second, a_stats, columns, a_eps, r_stats, r_gamma, r_beta, r_eps, stats
    if a.is_cuda:
        from proveout.devices.cuda import launch

        return launch.product(*given)
    return product_meaning(*given)


@product.register_fake
def _(a, w, bias, activation, residual, second, a_stats, columns, a_eps, r_stats, r_gamma, r_beta, r_eps, stats):  # type: ignore[no-untyped-def]
    y = a.new_empty(a.shape[0], w.shape[1])
    shape = (a.shape[0], w.shape[1] // STATS_WIDTH, 2) if stats else (0,)
    return y, a.new_empty(shape, dtype=torch.float32)


@custom_op(
    "proveout::fold_norm",
    mutates_args=(),
    schema="(Tensor w, Tensor? bias, Tensor gamma, Tensor beta) -> (Tensor, Tensor, Tensor)",
)
def fold_norm(w: Tensor, bias: Tensor | None, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A layer norm's gamma and beta in the product after it: weights, their column sums, bias; once for each weight."""
    folded = (w.float() * gamma.float()[:, None]).to(w.dtype)
    moved = beta.float() @ w.float()
    return folded, folded.float().sum(0), moved if bias is None else moved + bias.float()


@fold_norm.register_fake
def _(w, bias, gamma, beta):  # type: ignore[no-untyped-def]
    row = w.new_empty(w.shape[1], dtype=torch.float32)
    return torch.empty_like(w), row, torch.empty_like(row)


def norm_meaning(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)


@custom_op(
    "proveout::norm",
    mutates_args=(),
    schema="(Tensor x, Tensor gamma, Tensor beta, float eps) -> Tensor",
)
def norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
    """A layer norm of rows."""
    if x.is_cuda:
        from proveout.devices.cuda import launch

        return launch.norm(x, gamma, beta, eps)
    return norm_meaning(x, gamma, beta, eps)


@norm.register_fake
def _(x, gamma, beta, eps):  # type: ignore[no-untyped-def]
    return x.new_empty(x.shape)


def attention_meaning(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=grouped)


@custom_op(
    "proveout::attention",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale) -> Tensor",
)
def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """[batch, heads, queries, depth]; the result lies in memory as [batch, queries, heads, depth], as the product after
    it reads it."""
    if q.is_cuda:
        from proveout.devices.cuda import launch

        return launch.attention(q, k, v, mask, causal, scale)
    out = heads_last(q)
    return out.copy_(attention_meaning(q, k, v, mask, causal, scale))


def heads_last(q: Tensor) -> Tensor:
    """An empty result of attention."""
    batch, heads, queries, depth = q.shape
    return q.new_empty(batch, queries, heads, depth).transpose(1, 2)


@attention.register_fake
def _(q, k, v, mask, causal, scale):  # type: ignore[no-untyped-def]
    return heads_last(q)


@custom_op(
    "proveout::fold_conv",
    mutates_args=(),
    schema="(Tensor weight, Tensor? bias, Tensor? mean, Tensor? variance, Tensor? gamma, Tensor? beta, float eps)"
    " -> (Tensor, Tensor)",
)
def fold_conv(
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


@fold_conv.register_fake
def _(weight, bias, mean, variance, gamma, beta, eps):  # type: ignore[no-untyped-def]
    return weight.new_empty(weight.numel() // weight.shape[0], weight.shape[0]), weight.new_empty(
        weight.shape[0], dtype=torch.float32
    )


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
) -> Tensor:
    batch, height, width, channels = image
    filters = w.reshape(*window, channels, -1).permute(3, 2, 0, 1)
    picture = x.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
    y = F.conv2d(picture, filters, None, stride, padding, dilation).permute(0, 2, 3, 1).reshape(-1, w.shape[1])
    total = y.float() + bias
    if residual is not None:
        total = total + residual.reshape(total.shape).float()
    return ACTIVATIONS[activation](total).to(x.dtype).reshape(1, 1, -1, w.shape[1])


@custom_op(
    "proveout::conv",
    mutates_args=(),
    schema="(Tensor x, Tensor w, Tensor bias, Tensor? residual, str activation, int[] image, int[] window, int[] stride, "  # noqa: E501
    "int[] padding, int[] dilation) -> Tensor",
)
def conv(
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
) -> Tensor:
    """activation(convolution of x + bias + residual), flattened as ttnn has it: [1, 1, positions, channels]; `image` is
    [batch, height, width, channels] and w is `fold_conv`'s matrix."""
    if x.is_cuda:
        from proveout.devices.cuda import launch

        return launch.conv(x, w, bias, residual, activation, image, window, stride, padding, dilation)
    return conv_meaning(x, w, bias, residual, activation, image, window, stride, padding, dilation)


@conv.register_fake
def _(x, w, bias, residual, activation, image, window, stride, padding, dilation):  # type: ignore[no-untyped-def]
    sizes = [conv_size(*given) for given in zip(image[1:3], window, stride, padding, dilation)]
    return x.new_empty(1, 1, image[0] * sizes[0] * sizes[1], w.shape[1])
