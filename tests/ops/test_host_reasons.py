"""An op that no row serves says why it stays on the host, and runs there."""

from __future__ import annotations

import pytest
import torch
from harness import run

from proveout.ops.host import why_on_host
from proveout.ops.table import Sample, ops
from proveout.reasons import NO_ROW, NOT_A_DTYPE
from proveout.types import Settings

SETTINGS = Settings(verify=True)
aten = torch.ops.aten

BY_NATURE = [
    (aten.nonzero.default, "depends on the data"),
    (aten.masked_select.default, "depends on the data"),
    (aten.rand.default, "random numbers"),
    (aten.randperm.default, "random numbers"),
    (aten.bernoulli.p, "random numbers"),
    (aten.empty.memory_format, "without values"),
    (aten.empty_strided.default, "without values"),
    (aten.as_strided.default, "strides"),
    (aten._local_scalar_dense.default, "hands a number to Python"),
    (aten._linalg_svd.default, "a factorisation"),
    (aten._assert_async.msg, "an assertion"),
    (torch.ops.prims.sin.default, "an op of prims"),
]


@pytest.mark.parametrize(("op", "reason"), BY_NATURE, ids=lambda v: str(v))
def test_an_op_that_is_the_hosts_by_nature_says_so(op, reason):
    assert reason in str(why_on_host(op, ["float32"]))


def test_an_op_that_nobody_wrote_says_so():
    assert why_on_host(aten.lgamma.default, ["float32"]) == NO_ROW()


def test_a_complex_dtype_is_the_reason_whatever_the_op():
    assert why_on_host(aten._fft_r2c.default, ["float32", "complex64"]) == NOT_A_DTYPE(dtype="complex64")


def test_the_reason_reaches_the_coverage():
    found, compiled = run("aten._fft_r2c.default", Sample((torch.randn(4, 8), [1], 0, True)), "sim", SETTINGS)
    (status,) = compiled.coverage.on_host
    assert status.reason == "complex64 is not a dtype of this device"
    assert status.cause == NOT_A_DTYPE(dtype="complex64")
    assert found[0].shape == (4, 5)


def test_every_core_op_has_a_row_a_decomposition_or_a_reason():
    """But those that write in place or name an `out`, which functionalisation turns into others, and those of sizes."""
    from proveout.compiler.decompositions import decompositions

    overloads = [getattr(getattr(aten, name), o) for name in dir(aten) for o in _overloads(name)]
    core = [op for op in overloads if torch.Tag.core in op.tags and not op._schema.is_mutable]
    served = {str(op) for op in decompositions()} | set(ops())
    missing = [str(op) for op in core if str(op) not in served and why_on_host(op, _dtypes(op)) == NO_ROW()]
    assert [name for name in missing if not name.startswith("aten.sym_")] == []


def _overloads(name):
    packet = getattr(aten, name)
    return packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ()


def _dtypes(op):
    return ["complex64"] if "_fft_" in str(op) else ["float32"]
