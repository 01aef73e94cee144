"""Large products: one rule cuts them for time, memory and numerics, and the fit on it is no worse than before."""

from __future__ import annotations

import itertools

import pytest
from times import gemm

from proveout.chip.calibration import backings, matmul_parameters
from proveout.chip.matmul import Product
from proveout.chip.program_config import blocks_for, program_config
from proveout.chip.specs import CHIPS
from proveout.chip.table_rows import gemm_row
from proveout.chip.tables import committed

BEFORE = {
    ("wormhole_b0", "out of the box"): 0.047, ("wormhole_b0", "tuned"): 0.026,
    ("blackhole", "out of the box"): 0.027, ("blackhole", "tuned"): 0.030,
}  # fmt: skip
"""Median errors on shapes left out, of the fit that stood before."""


@pytest.fixture(scope="module")
def fitted():
    return gemm.fit([gemm_row(row, "") for row in committed("gemm.csv")])


def test_no_table_is_predicted_worse_than_before_with_its_shapes_left_out(fitted):
    for row in gemm.summaries(fitted[1]):
        assert row["median_error"] <= BEFORE[row["arch"], row["mode"]], (row["arch"], row["mode"])


def test_the_committed_parameters_are_those_of_this_fit(fitted):
    parameters, held = fitted
    for (arch, mode), row in zip(itertools.product(parameters, gemm.MODES), gemm.summaries(held), strict=True):
        assert matmul_parameters(arch, mode) == pytest.approx(parameters[arch][mode], rel=0.02)
        assert backings()["matmul", arch, mode].median_error == pytest.approx(row["median_error"], rel=0.05)


@pytest.mark.parametrize("chip", ["n150", "p150"])
def test_time_and_memory_cut_a_product_by_one_rule(chip):
    for m, k, n, near in itertools.product((1, 12, 96), (24, 97), (2, 64), (False, True)):
        product = Product(m, k, n, in0_l1=near, out_l1=near)
        blocks, config = blocks_for(product, CHIPS[chip]), program_config(product, CHIPS[chip])
        assert (blocks.m, blocks.n, blocks.k) == (config.m, config.n, config.k)
