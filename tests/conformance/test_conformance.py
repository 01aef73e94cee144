"""Our rules against what real ttnn did: the aims of the comparison, row by row and family by family."""

import math
from pathlib import Path

import pytest
from compare import HELD_OUT, ROWS, WITHIN, compare, rows, verdicts
from conformance_page import PAGE, lines

FAMILIES = sorted({(row["op"], row["arch"]) for row in rows()})


def of(op, arch):
    return [v for v in verdicts() if (v.op, v.arch) == (op, arch)]


def test_every_row_is_compared():
    assert len(verdicts()) == 4540


def test_refusals_output_specs_and_device_operations_agree_for_99_of_100_rows():
    agreeing = sum(v.agrees for v in verdicts())
    assert agreeing >= 0.99 * len(verdicts()), [v for v in verdicts() if not v.agrees][:5]


@pytest.mark.parametrize(("op", "arch"), FAMILIES)
def test_peak_l1_is_within_15_percent_for_9_of_10_rows(op, arch):
    rows = [v for v in of(op, arch) if v.expected]
    near = sum(v.error <= WITHIN for v in rows)
    assert near >= 0.9 * len(rows), max(rows, key=lambda v: v.error)


def test_peak_l1_of_matrix_products_is_exact():
    rows = [v for op in ("ttnn.matmul", "ttnn.linear") for arch in ("n150", "p150") for v in of(op, arch)]
    assert all(v.predicted == v.expected for v in rows)


def test_rows_that_no_formula_was_fitted_to_agree_as_well():
    rows = verdicts(HELD_OUT)
    peaks = [v for v in rows if v.expected]
    assert sum(v.agrees for v in rows) >= 0.99 * len(rows)
    assert sum(v.error <= WITHIN for v in peaks) >= 0.95 * len(peaks)


def test_a_changed_row_is_noticed():
    row = {"arch": "n150", "op": "ttnn.relu", "shape": [1, 1, 7, 5], "dtype": "bf16", "mem": "dram", "status": "ok"}
    row |= {"out_shape": [1, 1, 7, 5], "out_dtype": "BFLOAT16", "out_layout": "TILE", "out_buffer": "DRAM"}
    row |= {"device_ops": ["UnaryDeviceOperation"], "per_core_peak": 8192}
    assert compare(row).agrees
    assert math.isclose(compare(row).error, 0)
    assert not compare(row | {"status": "refused", "message": "no"}).agrees
    assert not compare(row | {"out_dtype": "FLOAT32"}).agrees
    assert not compare(row | {"device_ops": ["CopyDeviceOperation"]}).agrees
    assert compare(row | {"per_core_peak": 16384}).error == 0.5


def test_the_page_is_what_its_generator_writes():
    assert Path(PAGE).read_text() == "\n".join(lines())


def test_op_codes_are_those_that_ttnn_runs():
    """Of 5,824 accepted calls; the others are convolutions that ttnn runs in slices."""
    rows = [v for path in (ROWS, HELD_OUT) for v in verdicts(path) if v.accepted and v.ran]
    wrong = [v for v in rows if not v.ops]
    assert len(rows) == 5824
    assert len(wrong) <= 4, wrong
    assert {v.op for v in wrong} <= {"ttnn.conv2d"}
