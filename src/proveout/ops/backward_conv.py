"""Gradients of convolution, from slices and matrix products; in float32, as eager rounds once at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from proveout.ops.samples import randn
from proveout.ops.table import Builder, Op, Sample, Value
from proveout.ops.window import channels_first, convolved, grad_input, grad_weight, window_of

Ints = Sequence[int]


def lower_convolution(
    b: Builder,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """A transposed convolution is the gradient of one that goes the other way: its gradients are that one's."""
    num = weight.rank - 2
    stride, padding, dilation = (tuple(g) * num if len(g) == 1 else g for g in (stride, padding, dilation))
    wanted = [bool(m) and b.used(i) for i, m in enumerate(output_mask)]
    grad, x, kernel = (b.cast(t, "float32") for t in (grad_output, input, weight))
    w = window_of(x if not transposed else grad, grad if not transposed else x, weight, stride, padding, dilation)
    to_input, to_weight = None, None
    if wanted[0]:
        to_input = (convolved if transposed else grad_input)(b, grad, kernel, w, groups)
    if wanted[1]:
        to_weight = grad_weight(b, x, grad, w, groups) if transposed else grad_weight(b, grad, x, w, groups)
    to_bias = (
        b.call("ttnn.sum", input_tensor=channels_first(b, grad), dim=tuple(range(1, grad.rank)), keepdim=False)
        if wanted[2]
        else None
    )
    return tuple(
        b.reshape(b.cast(r, out.dtype), out.shape) if r is not None and out is not None else None
        for r, out in zip((to_input, to_weight, to_bias), b.outs)
    )


# ---- samples ---------------------------------------------------------------------------------------------------


def convolution_samples() -> Iterator[Sample]:
    def case(
        name: str,
        x: Ints,
        w: Ints,
        stride: Ints = (1, 1),
        pad: Ints = (0, 0),
        dil: Ints = (1, 1),
        groups: int = 1,
        mask: Sequence[bool] = (True, True, True),
        dtype: torch.dtype = torch.float32,
    ) -> Sample:
        rank = len(w) - 2
        geometry = [list(v)[:rank] + [v[-1]] * (rank - 2) for v in (stride, pad, dil)]
        spatial = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x[2:], w[2:], *geometry)]
        grad = randn(x[0], w[0], *spatial, dtype=dtype)
        weight, bias = randn(*w, dtype=dtype), [w[0]] if mask[2] else None
        rest = (False, [0] * rank, groups, list(mask))
        return Sample((grad, randn(*x, dtype=dtype), weight, bias, *geometry, *rest), name=name)

    yield case("3x3", (2, 3, 9, 11), (8, 3, 3, 3), pad=(1, 1))
    yield case("1x1", (2, 16, 5, 5), (8, 16, 1, 1), mask=(True, True, False))
    yield case("strided, one column left over", (1, 4, 9, 10), (8, 4, 3, 3), stride=(2, 2), pad=(1, 1))
    yield case("strided 1x1", (2, 4, 7, 8), (6, 4, 1, 1), stride=(2, 2))
    yield case("dilated", (1, 4, 9, 9), (8, 4, 3, 3), dil=(2, 2))
    yield case("uneven", (2, 3, 9, 12), (4, 3, 2, 5), stride=(2, 3), pad=(1, 0), dil=(3, 1))
    yield case("more padding than kernel", (1, 2, 5, 5), (3, 2, 1, 2), pad=(2, 3))
    yield case("depthwise", (2, 8, 7, 7), (8, 1, 3, 3), pad=(1, 1), groups=8)
    yield case("grouped", (2, 8, 7, 7), (12, 4, 3, 3), stride=(2, 2), groups=2)
    yield case("one dimension", (2, 4, 20), (6, 4, 5), stride=(2,), pad=(2,), dil=(1,))
    yield case("no grad input", (2, 3, 6, 6), (4, 3, 3, 3), mask=(False, True, True))
    yield case("no grad weight", (2, 3, 6, 6), (4, 3, 3, 3), mask=(True, False, False))
    yield case("bfloat16", (2, 3, 6, 6), (4, 3, 3, 3), dtype=torch.bfloat16)
    yield case("three dimensions", (1, 2, 5, 5, 5), (3, 2, 2, 2, 2))
    yield case("three dimensions, strided, grouped", (2, 4, 5, 6, 7), (6, 2, 2, 3, 2), (2, 1), (1, 0), (1, 2), 2)
    yield from transposed_samples()


def transposed_samples() -> Iterator[Sample]:
    def case(
        name: str,
        x: Ints,
        w: Ints,
        stride: Ints,
        pad: Ints,
        dil: Ints,
        more: Ints,
        groups: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> Sample:
        tensors = randn(*x, dtype=dtype), randn(*w, dtype=dtype)
        geometry = [list(v) for v in (stride, pad, dil)]
        out = torch.ops.aten.convolution(*tensors, None, *geometry, True, list(more), groups)
        rest = (True, list(more), groups, [True, True, True])
        return Sample((randn(*out.shape, dtype=dtype), *tensors, [out.shape[1]], *geometry, *rest), name=name)

    yield case("transposed", (2, 4, 5, 6), (4, 3, 3, 2), (2, 3), (1, 0), (1, 1), (1, 2))
    yield case("transposed, grouped, dilated", (1, 4, 5, 5), (4, 3, 3, 3), (1, 2), (2, 1), (2, 1), (0, 1), 2)
    half = torch.bfloat16
    yield case("transposed, bfloat16", (2, 4, 5, 6), (4, 3, 3, 2), (2, 3), (1, 0), (1, 1), (1, 2), dtype=half)
    yield case("transposed, one dimension", (2, 4, 5), (4, 3, 3), (2,), (1,), (1,), (0,))
    yield case(
        "transposed, three dimensions", (1, 2, 3, 4, 3), (2, 3, 2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1), (0, 0, 1)
    )


OPS = [Op("aten.convolution_backward.default", lower_convolution, samples=convolution_samples)]
