"""What the forms of time count, and how errors add up in a sum of kernels."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from times.whole import Profile, fit_shared

from proveout import ttnn
from proveout.chip import calibration
from proveout.chip.device_op import MATRIX, DeviceOp, Work
from proveout.chip.families import cores_of, features_of, form_of
from proveout.chip.profile_text import ProductConfig
from proveout.chip.specs import CHIPS
from proveout.chip.time import TimeEstimate, device_op_time, together
from proveout.types import DRAM, L1, Memory, ShardSpec, TensorSpec

N150 = CHIPS["n150"]


def t(*shape, dtype="bfloat16", layout="tile", memory=DRAM):
    return TensorSpec(shape, dtype, layout, memory)


def product(a, b, out, **params):
    work = Work(2.0 * math.prod(out.shape) * a.shape[-1], MATRIX, phased=True)
    return DeviceOp("matmul", (a, b), (out,), work, "LoFi", params=tuple(params.items()))


# ---- sums ------------------------------------------------------------------------------------------------------------


def test_errors_of_one_family_add_up_and_those_of_two_make_up_for_each_other():
    one = TimeEstimate(100, 80, 150)
    assert together([("conv", one)] * 4) == (320, 600)
    low, high = together([("conv", one), ("halo", one)])
    assert 160 < low < 200 - 20
    assert 200 + 50 < high < 300
    assert together([]) == (0, 0)


def test_the_share_in_common_is_the_smallest_that_keeps_the_promise():
    near = Profile("near", "blackhole", 9, 105.0, 100.0, (5.0, 5.0), (5.0, 5.0))
    far = replace(near, measured=109.0)
    assert fit_shared([near] * 4)[0] == 0.0
    share, found = fit_shared([far] * 4)
    assert share == 1.0
    assert all(p.inside for p in found)


def test_an_interval_of_a_single_source_is_wider_for_others():
    backing = calibration.backing("matmul", N150, "tuned")
    other = backing.elsewhere()
    assert other.low < backing.low < 1 < backing.high < other.high
    several = calibration.backing("1D decode product", N150)
    assert several.elsewhere() == several


# ---- shards ----------------------------------------------------------------------------------------------------------


def test_height_shards_are_cut_into_no_columns_however_their_cores_lie():
    def halo(grid):
        memory = Memory("l1", "height", ShardSpec((784, 64), grid))
        source = t(1, 1, 50176, 64, memory=memory)
        return DeviceOp("halo", (source,), (t(1, 1, 59456, 64, layout="row_major", memory=memory),))

    assert features_of(halo((8, 8)), N150) == features_of(halo((1, 64)), N150)


def test_a_product_from_block_shards_is_predicted_by_hand_made_configs_and_is_quicker_than_from_dram():
    near = Memory("l1", "block", ShardSpec((224, 96), (8, 8)))
    weight, out = t(768, 2304, dtype="bfloat8_b"), t(1, 1, 1792, 2304, dtype="bfloat8_b")
    sharded = product(t(1, 1, 1792, 768, dtype="bfloat8_b", memory=near), weight, replace(out, memory=L1))
    far = product(t(1, 1, 1792, 768, dtype="bfloat8_b"), weight, out)
    assert form_of(sharded, N150) == form_of(far, N150) == "2D product"
    assert device_op_time(sharded, N150).ns < 0.8 * device_op_time(far, N150).ns


@pytest.mark.parametrize("kind", ["1d", "2d"])
def test_a_factor_that_comes_again_for_each_block_of_the_output_costs_its_bytes_again(kind):
    a, b, out = t(1, 1, 4096, 1024), t(1024, 4096), t(1, 1, 4096, 4096)
    m = 128 if kind == "1d" else 16
    whole = ProductConfig(kind, m, 16 if kind == "2d" else 2, 2, grid=(8, 8))
    times = [
        features_of(replace(product(a, b, out, config=config), cores=64), N150)["dram"]
        for config in (whole, replace(whole, out_h=m // 4))
    ]
    assert times[1] - times[0] == pytest.approx(3 * b.nbytes / N150.dram_gb_s)


def test_a_batch_whose_rows_lie_in_shards_brings_only_its_right_factor():
    shards = Memory("l1", "height", ShardSpec((14 * 32, 64), (6, 8)))
    q = t(8, 12, 224, 64, dtype="bfloat8_b", memory=shards)
    k, out = t(8, 12, 64, 224, dtype="bfloat8_b", memory=L1), t(8, 12, 224, 224, dtype="bfloat8_b", memory=L1)
    local, far = (features_of(product(x, k, out), N150) for x in (q, replace(q, memory=L1)))
    assert "in0_tile" not in local
    assert far["in0_tile"] > 0
    assert cores_of(product(q, k, out), N150) == 48


def test_one_row_of_tiles_is_untilized_by_all_cores_and_one_token_attends_on_all():
    scores = t(1, 1, 32, 128256, memory=L1)
    rows = t(1, 1, 32, 128256, layout="row_major", memory=L1)
    assert cores_of(DeviceOp("untilize", (scores,), (rows,)), N150) == 64
    one = Memory("l1", "height", ShardSpec((32, 128), (1, 1)))
    cache = t(1, 8, 1024, 128, dtype="bfloat8_b")
    query = t(1, 1, 32, 128, memory=one)
    assert cores_of(DeviceOp("decode attention", (query, cache, cache), (t(1, 1, 32, 128),)), N150) == 64


# ---- activations inside a binary kernel ------------------------------------------------------------------------------


@pytest.mark.parametrize("numerics", ["fast", "faithful"])
def test_an_activation_inside_a_binary_kernel_is_one_device_operation_with_its_numbers(numerics):
    torch.manual_seed(0)
    device = ttnn.open_device(device_id=0, numerics=numerics)
    values = [torch.randn(1, 1, 32, 64).bfloat16() for _ in range(2)]
    a, b = (ttnn.from_torch(v, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for v in values)
    with ttnn.record("fused", inputs=[a, b]) as recording:
        summed = ttnn.add(a, b, activations=[ttnn.UnaryOpType.RELU])
        gated = ttnn.multiply(a, b, input_tensor_a_activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)])
        found = [ttnn.to_torch(x).float() for x in (summed, gated)]
    kernels = [s.kernel for s in recording.program.body if s.kernel in ("ttnn.add", "ttnn.multiply", "ttnn.relu")]
    assert kernels == ["ttnn.add", "ttnn.multiply"]
    x, y = (v.float() for v in values)
    torch.testing.assert_close(found[0], torch.relu(x + y), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(found[1], F.silu(x) * y, rtol=2e-2, atol=2e-2)
    assert "ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)" in str(recording.program)


def test_an_activation_with_parameters_still_runs_by_itself():
    device = ttnn.open_device(device_id=0)
    x = torch.randn(1, 1, 32, 32).bfloat16()
    a = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    leaky = ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.1)
    with ttnn.record("apart", inputs=[a]) as recording:
        found = ttnn.to_torch(ttnn.add(a, a, activations=[leaky])).float()
    assert [s.kernel for s in recording.program.body if s.kernel == "ttnn.leaky_relu"]
    torch.testing.assert_close(found, F.leaky_relu(2 * x.float(), 0.1), rtol=1e-2, atol=1e-2)
