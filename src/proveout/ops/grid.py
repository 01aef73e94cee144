"""Sampling a picture at places that a grid names, between its pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from proveout.ops.samples import randn
from proveout.ops.table import Builder, Op, Refused, Sample, Value
from proveout.reasons import NO_ELEMENTS, Kind

GRID_ROUNDING = Kind("grid-rounding", "eager rounds a grid's places to {dtype} in an order of its own")
BICUBIC_GRID = Kind("grid-bicubic", "bicubic sampling of a grid has no lowering")
LARGE_PICTURE = Kind("grid-large-picture", "a picture with more than 2**24 rows or columns")

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
EXACT = 2**24
"""Whole numbers below it are float32 numbers: positions along a dimension must be."""


def lower_grid_sampler(
    b: Builder, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """Each output is a lookup of one pixel, or of four with their weights; pixels outside count nothing."""
    if input.dtype != "float32":
        raise Refused(GRID_ROUNDING(dtype=input.dtype))
    if interpolation_mode == BICUBIC:
        raise Refused(BICUBIC_GRID())
    if 0 in input.shape or 0 in grid.shape:
        raise Refused(NO_ELEMENTS())
    n, _, height, width = input.shape
    if max(height, width) >= EXACT:
        raise Refused(LARGE_PICTURE())
    spots = math.prod(grid.shape[1:3])
    x, y = (_axis(b, grid, i) for i in range(2))
    x = _inside(b, _pixels(b, x, width, align_corners), width, padding_mode, align_corners)
    y = _inside(b, _pixels(b, y, height, align_corners), height, padding_mode, align_corners)
    x, y = (b.reshape(v, (n, 1, spots)) for v in (x, y))
    if interpolation_mode == NEAREST:
        nearest = (b.call("ttnn.round", input_tensor=v) for v in (x, y))
        return b.reshape(_pixel(b, input, *nearest), b.out.shape)
    left, top = (b.call("ttnn.floor", input_tensor=v) for v in (x, y))
    right, bottom = (b.call("ttnn.add", input_tensor_a=v, input_tensor_b=1.0) for v in (left, top))
    total: Value | None = None
    for column, row, far_x, far_y in (
        (left, top, (right, x), (bottom, y)),
        (right, top, (x, left), (bottom, y)),
        (left, bottom, (right, x), (y, top)),
        (right, bottom, (x, left), (y, top)),
    ):
        share = _times(b, _minus(b, *far_x), _minus(b, *far_y))
        part = _times(b, _pixel(b, input, column, row), share)
        total = part if total is None else b.call("ttnn.add", input_tensor_a=total, input_tensor_b=part)
    assert total is not None
    return b.reshape(total, b.out.shape)


def _axis(b: Builder, grid: Value, index: int) -> Value:
    ends = (*grid.shape[:-1], index + 1)
    return b.call("ttnn.slice", input_tensor=grid, slice_start=(0, 0, 0, index), slice_end=ends, slice_step=(1,) * 4)


def _pixels(b: Builder, x: Value, size: int, align_corners: bool) -> Value:
    """From -1 … 1 to pixels: the centres of the outermost ones, or their outer edges."""
    if align_corners:
        shifted = b.call("ttnn.add", input_tensor_a=x, input_tensor_b=1.0)
        return b.call("ttnn.multiply", input_tensor_a=shifted, input_tensor_b=(size - 1) / 2)
    scaled = b.call("ttnn.add", input_tensor_a=x, input_tensor_b=1.0)
    scaled = b.call("ttnn.multiply", input_tensor_a=scaled, input_tensor_b=size / 2)
    return b.call("ttnn.subtract", input_tensor_a=scaled, input_tensor_b=0.5)


def _inside(b: Builder, x: Value, size: int, padding_mode: int, align_corners: bool) -> Value:
    """Where a place outside is looked up."""
    if padding_mode == REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return b.call("ttnn.multiply", input_tensor_a=x, input_tensor_b=0.0)
        away = b.call("ttnn.abs", input_tensor=b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=low))
        rest = b.call("ttnn.fmod", input_tensor_a=away, scalar=span)
        turns = b.call("ttnn.floor", input_tensor=b.call("ttnn.div", input_tensor_a=away, value=span))
        odd = b.call("ttnn.fmod", input_tensor_a=turns, scalar=2.0)
        back = b.call("ttnn.rsub", input_tensor_a=rest, input_b=span)
        rest = b.call("ttnn.where", predicate=b.cast(odd, "bool"), true_value=back, false_value=rest, gives=x.dtype)
        x = b.call("ttnn.add", input_tensor_a=rest, input_tensor_b=low)
    if padding_mode == ZEROS:
        return x
    return b.call("ttnn.clamp", input_tensor=x, min=0.0, max=size - 1.0)


def _pixel(b: Builder, picture: Value, x: Value, y: Value) -> Value:
    """[n, channels, spots] of [n, channels, height, width] at whole numbers x, y of [n, 1, spots]; zero outside."""
    n, channels, height, width = picture.shape
    known: Value | None = None
    places = []
    for v, size in ((y, height), (x, width)):
        for kernel, limit in (("ttnn.ge", 0.0), ("ttnn.le", size - 1.0)):
            test = b.call(kernel, input_tensor_a=v, input_tensor_b=limit, dtype=b.dtype("bool"), gives="bool")
            if known is not None:
                test = b.call("ttnn.logical_and", input_tensor_a=known, input_tensor_b=test, gives="bool")
            known = test
        near = b.call("ttnn.where", predicate=known, true_value=v, false_value=0.0, gives=v.dtype)
        near = b.call("ttnn.clamp", input_tensor=near, min=0.0, max=size - 1.0)
        places.append(b.cast(near, "int32"))
    down = b.call("ttnn.multiply", input_tensor_a=places[0], input_tensor_b=width, range=(0, (height - 1) * width))
    index = b.call("ttnn.add", input_tensor_a=down, input_tensor_b=places[1], range=(0, height * width - 1))
    index = b.as_indices(b.expand(index, (n, channels, x.shape[-1])))
    pixels = b.call("ttnn.gather", input=b.reshape(picture, (n, channels, height * width)), dim=2, index=index)
    return b.call("ttnn.where", predicate=known, true_value=pixels, false_value=0.0, gives=picture.dtype)


def _minus(b: Builder, x: Value, y: Value) -> Value:
    return b.call("ttnn.subtract", input_tensor_a=x, input_tensor_b=y)


def _times(b: Builder, x: Value, y: Value) -> Value:
    return b.call("ttnn.multiply", input_tensor_a=x, input_tensor_b=y)


def grid_samples() -> Iterator[Sample]:
    picture, grid = randn(2, 3, 5, 7), randn(2, 4, 6, 2, scale=0.9)
    for mode in (BILINEAR, NEAREST):
        for padding in (ZEROS, BORDER, REFLECTION):
            for corners in (False, True):
                yield Sample((picture, grid, mode, padding, corners), name=f"{mode} {padding} {corners}")
    yield Sample((picture, grid, BICUBIC, ZEROS, False), name="bicubic")
    yield Sample((picture, grid * 40, BILINEAR, REFLECTION, False), name="far outside, reflected")
    yield Sample((picture, grid * 1e6, BILINEAR, ZEROS, True), name="far outside")
    yield Sample((randn(1, 2, 1, 1), randn(1, 3, 3, 2), BILINEAR, REFLECTION, True), name="one pixel")
    broken = picture.clone()
    broken[0, 0, 2, 2] = math.inf
    yield Sample((broken, grid, BILINEAR, ZEROS, False), name="infinity")
    yield Sample((picture.bfloat16(), grid.bfloat16(), BILINEAR, ZEROS, False), name="bfloat16")
    ends = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-1.0, 1.0]]).reshape(1, 2, 2, 2)
    yield Sample((randn(1, 2, 4, 4), ends, BILINEAR, ZEROS, True), name="corners")


OPS = [Op("aten.grid_sampler_2d.default", lower_grid_sampler, samples=grid_samples)]
