"""Interpolation. Every kind is separable and linear, so eager itself tells, along one dimension and at compile time,
which source each output comes from (nearest) or how much of each source it takes (linear, cubic)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from proveout.ops.indexing import take
from proveout.ops.samples import randn
from proveout.ops.table import WIDE, Builder, Op, Refused, Sample, Value
from proveout.reasons import Kind

LARGE_DIMENSION = Kind(
    "interpolation-size", "a dimension of 2**24 elements or more: eager itself counts them in float32"
)
STEPWISE_ROUNDING = Kind("interpolation-rounding", "eager rounds to bfloat16 after each step of this interpolation")
INTERPOLATION_DTYPE = Kind("interpolation-dtype", "interpolation of {dtype}")

Ints = Sequence[int]
Scales = Sequence[float | None]
aten = torch.ops.aten


def nearest(exact: bool) -> Callable[..., Value]:
    def lower(b: Builder, **arguments: Any) -> Value:
        """Copies of the source's rows and columns."""
        x, scales = _source(arguments)
        for dim, scale in enumerate(scales, start=2):
            x = take(b, x, dim, sources(exact, x.shape[dim], b.out.shape[dim], scale))
        return x

    return lower


def sources(exact: bool, size: int, out: int, scale: float | None) -> list[int]:
    """Which element of a dimension each output copies."""
    if size >= 2**24:
        raise Refused(LARGE_DIMENSION())
    along: Any = aten._upsample_nearest_exact1d.default if exact else aten.upsample_nearest1d.default
    ramp = torch.arange(size, dtype=torch.float32).reshape(1, 1, -1)
    indices: list[int] = along(ramp, [out], scale).flatten().long().tolist()
    return indices


Along = Callable[[torch.Tensor, int, bool, float | None], torch.Tensor]


def weighted(along: Along, rounds_at_the_end: bool = False) -> Callable[..., Value]:
    def lower(b: Builder, **arguments: Any) -> Value:
        """One product with the interpolation's matrix a dimension, in float32."""
        source, scales = _source(arguments)
        if source.dtype == "bfloat16" and not rounds_at_the_end:
            raise Refused(STEPWISE_ROUNDING())
        x = b.cast(source, WIDE)
        for dim, scale in enumerate(scales, start=2):
            unit = torch.eye(x.shape[dim])
            x = mixed(b, x, dim, along(unit, b.out.shape[dim], arguments["align_corners"], scale))
        return b.cast(x, b.out.dtype)

    return lower


def mixed(b: Builder, x: Value, dim: int, matrix: torch.Tensor) -> Value:
    """A product along one dimension: row i of the matrix says what element i gives to each output."""
    if matrix.shape[0] == matrix.shape[1] and torch.equal(matrix, torch.eye(len(matrix))):
        return x
    order = [*(d for d in range(x.rank) if d != dim), dim]
    shares = b.cast(b.constant(matrix), WIDE) if x.dtype == WIDE else b.constant(matrix)
    turned = b.call("ttnn.matmul", input_tensor_a=b.permute(x, order), input_tensor_b=shares)
    return b.permute(turned, [order.index(d) for d in range(x.rank)])


def linear(unit: torch.Tensor, size: int, align_corners: bool, scale: float | None) -> torch.Tensor:
    """Row i holds what source i gives to each output."""
    out: torch.Tensor = aten.upsample_linear1d.default(unit[None], [size], align_corners, scale)
    return out[0]


def in_a_plane(function: Any) -> Along:
    """Kinds that eager has for planes alone, of planes one row high."""

    def along(unit: torch.Tensor, size: int, align_corners: bool, scale: float | None) -> torch.Tensor:
        out: torch.Tensor = function(unit[None, :, None, :], [1, size], align_corners, None, scale)
        return out[0, :, 0, :]

    return along


def _source(arguments: dict[str, Any]) -> tuple[Value, Scales]:
    """The input and its scales, of either overload: `.vec` has them in a list, the other one by one."""
    x: Value = arguments.get("self") or arguments["input"]
    if not x.is_float:
        raise Refused(INTERPOLATION_DTYPE(dtype=x.dtype))
    names = {3: ("scales",), 4: ("scales_h", "scales_w"), 5: ("scales_d", "scales_h", "scales_w")}[x.rank]
    return x, arguments.get("scale_factors") or [arguments.get(name) for name in names]


# ---- samples -----------------------------------------------------------------------------------------------------


def _shape(rank: int) -> tuple[int, ...]:
    return (2, 3, 4, 5, 6)[: rank + 2]


def samples(rank: int, *flags: bool, half: bool) -> Callable[[], Iterator[Sample]]:
    """Of the overload with sizes. Not all of eager's take bfloat16."""

    def make() -> Iterator[Sample]:
        twice = [2 * n for n in _shape(rank)[2:]]
        other = [7, 3, 9][:rank]
        for flag in flags or (None,):
            extra = () if flag is None else (flag,)
            yield Sample((randn(*_shape(rank)), twice, *extra), name=f"twice {flag}")
            yield Sample((randn(*_shape(rank)), other, *extra), name=f"up and down {flag}")
            sizes = [int(n * 1.7) for n in _shape(rank)[2:]]
            yield Sample((randn(*_shape(rank)), sizes, *extra, *[1.7] * rank), name=f"scales {flag}")
            if half:
                yield Sample((randn(*_shape(rank), dtype=torch.bfloat16), other, *extra), name=f"bfloat16 {flag}")
            yield Sample((randn(2, 3, *[1] * rank), other, *extra), name=f"one pixel {flag}")
            yield Sample((randn(*_shape(rank)), [1] * rank, *extra), name=f"to one {flag}")

    return make


def vector_samples(rank: int, *flags: bool) -> Callable[[], Iterator[Sample]]:
    """Of the overload with sizes or scales."""

    def make() -> Iterator[Sample]:
        for flag in flags or (None,):
            extra = () if flag is None else (flag,)
            yield Sample((randn(*_shape(rank)), None, *extra, [2.0] * rank), name=f"scale 2 {flag}")
            yield Sample((randn(*_shape(rank)), None, *extra, [1.3] * rank), name=f"scale 1.3 {flag}")
            yield Sample((randn(*_shape(rank)), [7, 3, 9][:rank], *extra, None), name=f"size {flag}")

    return make


def _rows(name: str, lower: Callable[..., Value], rank: int, *flags: bool) -> list[Op]:
    return [
        Op(f"aten.{name}.default", lower, samples=samples(rank, *flags, half=not name.endswith("_aa"))),
        Op(f"aten.{name}.vec", lower, samples=vector_samples(rank, *flags)),
    ]


OPS = [
    *(op for n in (1, 2, 3) for op in _rows(f"upsample_nearest{n}d", nearest(exact=False), n)),
    *(op for n in (1, 2, 3) for op in _rows(f"_upsample_nearest_exact{n}d", nearest(exact=True), n)),
    *(
        op
        for n, name in enumerate(("linear1d", "bilinear2d", "trilinear3d"), start=1)
        for op in _rows(f"upsample_{name}", weighted(linear, rounds_at_the_end=n == 2), n, False, True)
    ),
    *(
        op
        for name in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
        for op in _rows(name, weighted(in_a_plane(getattr(aten, name).default)), 2, False, True)
    ),
]
