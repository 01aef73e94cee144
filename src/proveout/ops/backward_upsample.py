"""Gradients of interpolation: what each source gave to an output comes back from it, in float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from proveout.ops.samples import randn
from proveout.ops.table import Builder, Op, Refused, Sample, Value
from proveout.ops.upsample import INTERPOLATION_DTYPE, Along, in_a_plane, linear, mixed, sources

Ints = Sequence[int]
aten = torch.ops.aten


def nearest(exact: bool) -> Callable[..., Value]:
    def lower(b: Builder, grad_output: Value, output_size: Ints, input_size: Ints, **scales: float | None) -> Value:
        """A pixel gets the gradients of all its copies."""
        grad = b.cast(grad_output, "float32")
        for dim, scale in _scales(grad, scales):
            grad = _collected(b, grad, dim, sources(exact, input_size[dim], grad.shape[dim], scale), input_size[dim])
        return b.cast(grad, b.out.dtype)

    return lower


def weighted(along: Along) -> Callable[..., Value]:
    def lower(
        b: Builder,
        grad_output: Value,
        output_size: Ints,
        input_size: Ints,
        align_corners: bool,
        **scales: float | None,
    ) -> Value:
        """The interpolation's own matrices, turned around."""
        grad = b.cast(grad_output, "float32")
        for dim, scale in _scales(grad, scales):
            matrix = along(torch.eye(input_size[dim]), grad.shape[dim], align_corners, scale)
            grad = mixed(b, grad, dim, matrix.T.contiguous())
        return b.cast(grad, b.out.dtype)

    return lower


def _collected(b: Builder, x: Value, dim: int, targets: list[int], size: int) -> Value:
    """Sums of the elements that have one target; by a reduction where each has as many, next to each other."""
    times = len(targets) // size
    if times and targets == [i // times for i in range(size * times)]:
        if times == 1:
            return x
        apart = b.reshape(x, (*x.shape[:dim], size, times, *x.shape[dim + 1 :]))
        return b.call("ttnn.sum", input_tensor=apart, dim=(dim + 1,), keepdim=False)
    index = torch.tensor(targets).reshape(-1, *(1,) * (x.rank - dim - 1)).expand(x.shape)
    start = b.expand(b.constant(torch.zeros(())), (*x.shape[:dim], size, *x.shape[dim + 1 :]))
    return b.call("ttnn.scatter_add", input=start, dim=dim, index=b.as_indices(b.constant(index)), src=x)


def _scales(grad: Value, scales: dict[str, float | None]) -> Iterator[tuple[int, float | None]]:
    if not grad.is_float:
        raise Refused(INTERPOLATION_DTYPE(dtype=grad.dtype))
    names = {3: ("scales",), 4: ("scales_h", "scales_w"), 5: ("scales_d", "scales_h", "scales_w")}[grad.rank]
    yield from enumerate((scales.get(name) for name in names), start=2)


def samples(rank: int, *flags: bool, half: bool = True) -> Callable[[], Iterator[Sample]]:
    """Not all of eager's take bfloat16."""
    size = (2, 3, 4, 5, 6)[: rank + 2]

    def case(name: str, out: Ints, input_shape: Ints, scales: Ints | Sequence[float] = (), **options: Any) -> Sample:
        return Sample((randn(*size[:2], *out, **options), list(out), list(size), *input_shape, *scales), name=name)

    def make() -> Iterator[Sample]:
        for flag in flags or (None,):
            extra = () if flag is None else (flag,)
            yield case(f"twice {flag}", [2 * n for n in size[2:]], extra)
            yield case(f"other sizes {flag}", [7, 3, 9][:rank], extra)
            yield case(f"scales {flag}", [math.floor(n * 1.3) for n in size[2:]], extra, [1.3] * rank)
            if half:
                yield case(f"bfloat16 {flag}", [2 * n for n in size[2:]], extra, dtype=torch.bfloat16)

    return make


LINEAR = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
PLANES = ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
OPS = [
    *(
        Op(f"aten.{name}{n}d_backward.default", nearest(exact), samples=samples(n))
        for name, exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True))
        for n in (1, 2, 3)
    ),
    *(
        Op(f"aten.{name}_backward.default", weighted(linear), samples=samples(n, False, True))
        for n, name in enumerate(LINEAR, start=1)
    ),
    *(
        Op(
            f"aten.{name}_backward.default",
            weighted(in_a_plane(getattr(aten, name).default)),
            samples=samples(2, False, True, half=not name.endswith("_aa")),
        )
        for name in PLANES
    ),
]
