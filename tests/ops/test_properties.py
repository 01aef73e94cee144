"""Rows over wide inputs: any shapes, dimensions, broadcasting and geometry give exactly what eager gives.

Tensors hold small whole numbers, so that no order of summation shows and results can be compared exactly.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from harness import run
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proveout.devices.execute import aten_op
from proveout.ops.table import Sample
from proveout.types import Settings

SETTINGS = Settings(verify=True)
EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
SHAPES = st.lists(st.integers(1, 5), min_size=0, max_size=5).map(tuple)
FULL = SHAPES.filter(lambda shape: len(shape) > 0)


def whole(*shape, seed=0, dtype=torch.float32):
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def same_as_eager(aten, *args, **kwargs):
    wanted = aten_op(aten)(*args, **kwargs)
    found, compiled = run(aten, Sample(args, kwargs), "sim", SETTINGS)
    for got, want in zip(found, wanted if isinstance(wanted, (tuple, list)) else [wanted]):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    return compiled.coverage


@st.composite
def broadcastable(draw, num):
    """Shapes that broadcast together: each keeps a suffix of one shape, some sizes of it as ones."""
    shape = draw(SHAPES)
    kept = [shape[draw(st.integers(0, len(shape))) :] for _ in range(num)]
    return [tuple(1 if draw(st.booleans()) else n for n in part) for part in kept]


@pytest.mark.parametrize("aten", ["aten.add.Tensor", "aten.mul.Tensor", "aten.maximum.default", "aten.lt.Tensor"])
@EXAMPLES
@given(shapes=broadcastable(2))
def test_two_operands_of_any_shapes_broadcast(aten, shapes):
    coverage = same_as_eager(aten, whole(*shapes[0], seed=1), whole(*shapes[1], seed=2))
    assert not coverage.on_host


@EXAMPLES
@given(shapes=broadcastable(3))
def test_where_broadcasts_all_three(shapes):
    condition, x, y = (whole(*shape, seed=i) for i, shape in enumerate(shapes))
    assert not same_as_eager("aten.where.self", condition > 0, x, y).on_host


@pytest.mark.parametrize("aten", ["aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default"])
@EXAMPLES
@given(shape=FULL, data=st.data())
def test_reductions_over_any_dimensions(aten, shape, data):
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    signed = [d - len(shape) if data.draw(st.booleans()) else d for d in dims]
    assert not same_as_eager(aten, whole(*shape), signed, data.draw(st.booleans())).on_host


@EXAMPLES
@given(shape=FULL, data=st.data())
def test_running_sums_along_any_dimension(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    assert not same_as_eager("aten.cumsum.default", whole(*shape), dim).on_host


@EXAMPLES
@given(shape=FULL, data=st.data())
def test_slices_of_any_bounds_and_steps(shape, data):
    """Also of no element, which stays on the host."""
    bound = st.none() | st.integers(-7, 7)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    same_as_eager(
        "aten.slice.Tensor", whole(*shape), dim, data.draw(bound), data.draw(bound), data.draw(st.integers(1, 3))
    )


@EXAMPLES
@given(shape=FULL, data=st.data())
def test_pads_that_add_and_cut(shape, data):
    rank = data.draw(st.integers(1, len(shape)))
    pads = data.draw(st.lists(st.integers(-2, 3), min_size=2 * rank, max_size=2 * rank))
    assume(all(n + pads[2 * i] + pads[2 * i + 1] > 0 for i, n in enumerate(reversed(shape[-rank:]))))
    assume(all(pads[2 * i] > -n and pads[2 * i + 1] > -n for i, n in enumerate(reversed(shape[-rank:]))))
    assert not same_as_eager("aten.constant_pad_nd.default", whole(*shape), pads, 2.5).on_host


@EXAMPLES
@given(shape=FULL, data=st.data())
def test_lookups_by_indices_of_any_shape_and_sign(shape, data):
    given_at = sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    index_shape = data.draw(st.lists(st.integers(1, 4), max_size=3))
    indices: list[torch.Tensor | None] = [None] * (given_at[-1] + 1)
    for dim in given_at:
        n = shape[dim]
        generator = torch.Generator().manual_seed(dim)
        indices[dim] = torch.randint(-n, n, index_shape, generator=generator)
    assert not same_as_eager("aten.index.Tensor", whole(*shape), indices).on_host
    values = whole(*torch.empty(shape)[tuple(slice(None) if i is None else i for i in indices)].shape, seed=3)
    assert not same_as_eager("aten.index_put.default", whole(*shape), indices, values, True).on_host


@EXAMPLES
@given(shape=FULL, data=st.data())
def test_scatters_along_any_dimension(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    index_shape = [data.draw(st.integers(1, n)) for n in shape]
    index_shape[dim] = data.draw(st.integers(1, 6))
    index = torch.randint(0, shape[dim], index_shape, generator=torch.Generator().manual_seed(1))
    source = whole(*(n + data.draw(st.integers(0, 2)) for n in index_shape), seed=2)
    assert not same_as_eager("aten.scatter_add.default", whole(*shape), dim, index, source).on_host
    for reduce, included in itertools.product(("sum", "prod"), (True, False)):
        arguments = whole(*shape), dim, index, source, reduce
        assert not same_as_eager("aten.scatter_reduce.two", *arguments, include_self=included).on_host
    assert not same_as_eager("aten.gather.default", whole(*shape), dim, index).on_host


@st.composite
def convolutions(draw):
    """Arguments of `aten.convolution` that eager takes, of one to three dimensions, either way."""
    rank, transposed = draw(st.integers(1, 3)), draw(st.booleans())
    groups, per_in, per_out = (draw(st.integers(1, 3)) for _ in range(3))
    kernel, stride, padding, dilation = (
        [draw(st.integers(low, high)) for _ in range(rank)] for low, high in ((1, 3), (1, 3), (0, 2), (1, 2))
    )
    size = [draw(st.integers(1, 5)) for _ in range(rank)]
    more = [draw(st.integers(0, max(s, d) - 1)) if transposed else 0 for s, d in zip(stride, dilation)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    for n, s, p, m, r in zip(size, stride, padding, more, reach):
        assume((n - 1) * s - 2 * p + r + m > 0 if transposed else n + 2 * p >= r)
    x = whole(draw(st.integers(1, 2)), groups * per_in, *size)
    channels = (groups * per_in, per_out) if transposed else (groups * per_out, per_in)
    bias = whole(groups * per_out, seed=2) if draw(st.booleans()) else None
    return x, whole(*channels, *kernel, seed=1), bias, stride, padding, dilation, transposed, more, groups


@EXAMPLES
@given(arguments=convolutions())
def test_convolutions_of_any_geometry_and_their_gradients(arguments):
    assert not same_as_eager("aten.convolution.default", *arguments).on_host
    x, weight, _, *geometry = arguments
    out = torch.ops.aten.convolution(*arguments)
    gradients = whole(*out.shape, seed=3), x, weight, [out.shape[1]], *geometry, [True, True, True]
    assert not same_as_eager("aten.convolution_backward.default", *gradients).on_host


@EXAMPLES
@given(size=st.tuples(st.integers(1, 6), st.integers(1, 6)), out=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_nearest_pixels_to_any_size_and_back(size, out):
    assert not same_as_eager("aten.upsample_nearest2d.default", whole(2, 3, *size), list(out)).on_host
    grad = whole(2, 3, *out)
    assert not same_as_eager("aten.upsample_nearest2d_backward.default", grad, list(out), [2, 3, *size]).on_host


@EXAMPLES
@given(shape=FULL, seed=st.integers(0, 9))
def test_a_masked_scatter_takes_the_source_in_order(shape, seed):
    mask = whole(*shape, seed=seed) > 0
    source = torch.arange(math.prod(shape), dtype=torch.float32)
    assert not same_as_eager("aten.masked_scatter.default", whole(*shape), mask, source).on_host
