"""Every row of the op table computes what eager computes, for each of its samples: generated, one test a sample."""

from __future__ import annotations

import itertools

import pytest
import torch
from harness import run

from proveout.devices.execute import aten_op
from proveout.ops.table import all_ops, ops
from proveout.program import refs
from proveout.types import Settings
from ttnn_binding import binding_error

CASES = [
    pytest.param(op.aten, index, id=f"{op.aten}-{sample.name or index}")
    for op in all_ops()
    for index, sample in enumerate(op.samples() if op.samples else ())
]
MODEL = Settings(precision="model", verify=True)


def sample_of(aten, index):
    return next(itertools.islice(ops()[aten].samples(), index, None))


def eager(aten, sample):
    out = aten_op(aten)(*sample.args, **sample.kwargs)
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize(("aten", "index"), CASES)
@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_row_computes_what_eager_computes(aten, index, device):
    sample = sample_of(aten, index)
    found, _ = run(aten, sample, device, MODEL)
    for got, wanted in zip(found, eager(aten, sample)):
        if wanted is None:
            assert got is None
            continue
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, equal_nan=True)


@pytest.mark.parametrize(("aten", "index"), CASES)
def test_row_in_bfloat16_is_close_to_float32(aten, index):
    sample = sample_of(aten, index)
    found, _ = run(aten, sample, "sim", Settings(precision="bfloat16", verify=True))
    for got, wanted in zip(found, eager(aten, sample)):
        if wanted is None:
            assert got is None
            continue
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        if wanted.is_floating_point() and aten not in DISCONTINUOUS:
            torch.testing.assert_close(got.float(), wanted.float(), rtol=0.05, atol=0.08, equal_nan=True)


DISCONTINUOUS = {
    "aten.floor.default",
    "aten.ceil.default",
    "aten.trunc.default",
    "aten.round.default",
    "aten.round.decimals",
    "aten.div.Tensor_mode",
    "aten.div.Scalar_mode",
    "aten.remainder.Tensor",
    "aten.remainder.Scalar",
    "aten.fmod.Tensor",
    "aten.fmod.Scalar",
    "aten.sign.default",
    "aten.grid_sampler_2d.default",
}


@pytest.mark.parametrize("aten", [op.aten for op in all_ops()])
def test_row_reaches_the_device_and_binds_to_ttnn(aten):
    """At least one sample is lowered, and every Step it gives is a call that ttnn's signatures take."""
    lowered = 0
    op = next(op for op in all_ops() if op.aten == aten)
    for sample in op.samples():
        for precision in ("model", "bfloat16"):
            _, compiled = run(aten, sample, "sim", Settings(precision=precision))
            lowered += not compiled.coverage.on_host
            for step in compiled.program.steps:
                if not step.on_host:
                    attributes = {k: any(True for _ in refs(v)) for k, v in step.attrs}
                    assert binding_error(step.kernel, attributes) is None
    assert lowered


def test_every_row_has_samples():
    assert not [op.aten for op in all_ops() if op.samples is None]
