"""Hand-written ttnn means what it says: configs, shards and cores decide where results lie and how long they take.

Placements and peaks are those of real ttnn 0.81.1 on its mock n150.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from proveout import ttnn
from proveout.kernels.cost import step_device_ops
from proveout.types import ShardSpec

LAYOUT = ttnn.TensorMemoryLayout
TILES = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT}


@pytest.fixture
def device():
    device = ttnn.open_device(device_id=0)
    yield device
    ttnn.close_device(device)


def convolve(
    device, source=None, place=ttnn.L1_MEMORY_CONFIG, size=56, window=3, stride=1, channels=64, bias=None, **config
):
    if source is None:
        source = ttnn.from_torch(torch.randn(1, 1, size * size, 64), dtype=ttnn.bfloat16)
        source = ttnn.to_device(source, device, memory_config=place)
    return ttnn.conv2d(
        input_tensor=source, weight_tensor=ttnn.from_torch(torch.randn(channels, 64, window, window)),
        bias_tensor=bias, device=device, in_channels=64, out_channels=channels, batch_size=1, input_height=size,
        input_width=size, kernel_size=(window, window), stride=(stride, stride), padding=(window // 2, window // 2),
        conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16, **config),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "shard"),
    [
        (LAYOUT.HEIGHT_SHARDED, ShardSpec((64, 64), (8, 7))),
        (LAYOUT.BLOCK_SHARDED, ShardSpec((416, 32), (2, 8))),
        (LAYOUT.WIDTH_SHARDED, ShardSpec((3136, 32), (2, 1))),
        (None, ShardSpec((416, 32), (2, 8))),
    ],
)
def test_a_convolution_from_l1_stays_in_the_shards_that_its_config_names(device, layout, shard):
    made = convolve(device, shard_layout=layout)
    assert made.is_sharded()
    assert made.spec.memory.shard == shard
    assert tuple(made.memory_config().shard_spec.shape) == shard.shape


def test_three_shardings_are_three_times_wherever_the_input_lies(device):
    for place in (ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG):
        times = set()
        for layout in (LAYOUT.HEIGHT_SHARDED, LAYOUT.BLOCK_SHARDED, LAYOUT.WIDTH_SHARDED):
            convolve(device, place=place, shard_layout=layout)
            times.add(device.last_ns)
        assert len(times) == 3


def test_two_cores_are_slower_than_all(device):
    two = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))})
    convolve(device, size=32, shard_layout=LAYOUT.HEIGHT_SHARDED)
    usual = device.last_ns
    made = convolve(device, size=32, shard_layout=LAYOUT.HEIGHT_SHARDED, core_grid=two, override_sharding_config=True)
    assert made.spec.memory.shard == ShardSpec((512, 64), (2, 1))
    assert device.last_ns > 3 * usual


def test_a_sharded_input_keeps_its_shards_unless_the_config_may_reshard_it(device):
    source = convolve(device, shard_layout=LAYOUT.HEIGHT_SHARDED)
    kept = convolve(device, source, stride=2, channels=128, shard_layout=LAYOUT.BLOCK_SHARDED)
    assert (kept.spec.memory.sharding, kept.spec.memory.shard) == ("height", ShardSpec((32, 128), (8, 7)))
    moved = convolve(device, source, channels=128, shard_layout=LAYOUT.BLOCK_SHARDED, reshard_if_not_optimal=True)
    assert (moved.spec.memory.sharding, moved.spec.memory.shard) == ("block", ShardSpec((416, 32), (4, 8)))
    with ttnn.record(inputs=[source]) as recording:
        ttnn.to_torch(convolve(device, source, window=1, channels=128))
    (step,) = [s for s in recording.program.body if s.kernel == "ttnn.conv2d"]
    found = step_device_ops(step, recording.program.specs, recording.chip, recording.settings)
    assert [op.family for op in found] == ["matmul"]


def test_a_convolution_takes_a_float32_bias(device):
    bias = ttnn.from_torch(torch.randn(1, 1, 1, 64), dtype=ttnn.float32)
    assert convolve(device, bias=bias).dtype == ttnn.bfloat16


def test_cores_and_blocks_of_products_and_others_change_their_times(device):
    x, w = (ttnn.from_torch(torch.randn(1, 1, n, 1024), device=device, **TILES) for n in (1024, 1024))

    def ns(call, *args, **kwargs):
        call(*args, **kwargs)
        return device.last_ns

    small, full = ttnn.CoreGrid(x=2, y=1), ttnn.CoreGrid(x=8, y=8)
    few = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))})
    assert ns(ttnn.linear, x, w, core_grid=small) > 4 * ns(ttnn.linear, x, w, core_grid=full)
    assert ns(ttnn.gelu, x, sub_core_grids=few) > 4 * ns(ttnn.gelu, x)
    assert ns(ttnn.add, x, x, sub_core_grids=few) > 4 * ns(ttnn.add, x, x)
    q = ttnn.from_torch(torch.randn(1, 8, 1024, 64), device=device, **TILES)
    chunks = []
    for grid, size in (((8, 8), 32), ((8, 8), 256), ((1, 1), 256)):
        config = ttnn.SDPAProgramConfig(
            compute_with_storage_grid_size=ttnn.CoreCoord(*grid), q_chunk_size=size, k_chunk_size=size
        )
        attend = ttnn.transformer.scaled_dot_product_attention
        chunks.append(ns(attend, q, q, q, is_causal=False, program_config=config))
    assert len(set(chunks)) == 3
    assert chunks[2] > 8 * chunks[1]


# ---- functions that were not there -----------------------------------------------------------------------------------


def test_upsample_and_the_global_pool_compute_what_torch_does(device):
    image = torch.randn(2, 6, 4, 32).bfloat16()
    x = ttnn.from_torch(image, dtype=ttnn.bfloat16, device=device)
    nchw = image.float().permute(0, 3, 1, 2)
    for factor, mode in ((2, "nearest"), ((2, 3), "nearest"), (2, "bilinear")):
        found = ttnn.to_torch(ttnn.upsample(x, factor, mode=mode)).float().permute(0, 3, 1, 2)
        even = {"align_corners": False} if mode == "bilinear" else {}
        torch.testing.assert_close(
            found, F.interpolate(nchw, scale_factor=factor, mode=mode, **even), atol=0.03, rtol=0.02
        )
    with pytest.raises(RuntimeError, match="mode must be 'nearest' or 'bilinear'"):
        ttnn.upsample(x, 2, mode="bicubic")
    pooled = ttnn.global_avg_pool2d(x)
    assert (pooled.shape, pooled.layout) == ([2, 1, 1, 32], ttnn.TILE_LAYOUT)
    torch.testing.assert_close(ttnn.to_torch(pooled).float(), nchw.mean((2, 3))[:, None, None], atol=0.02, rtol=0.02)


@pytest.mark.parametrize("cores", [1, 8])
def test_group_norm_takes_weights_as_each_core_holds_them(device, cores):
    channels, groups = 320, 32
    image, weight, bias = torch.randn(1, 1, 64, channels), torch.randn(channels), torch.randn(channels)

    def rows(values):
        filled = F.pad(values.reshape(cores, -1), (0, -(channels // cores) % 32))
        return ttnn.from_torch(filled.reshape(1, 1, -1, 32), dtype=ttnn.bfloat16, device=device)

    x = ttnn.from_torch(image, device=device, **TILES)
    told = {"num_groups": groups, "epsilon": 1e-5, "weight": rows(weight), "bias": rows(bias)}
    found = ttnn.to_torch(ttnn.group_norm(x, inplace=False, core_grid=ttnn.CoreGrid(x=4, y=4), **told)).float()
    want = F.group_norm(image[0, 0].T[None], groups, weight, bias, 1e-5)[0].T[None, None]
    assert torch.corrcoef(torch.stack([found.flatten(), want.flatten()]))[0, 1] > 0.999
    with pytest.raises(RuntimeError, match="Tile layout requires non-inplace tensors"):
        ttnn.group_norm(x, **told)


def test_as_tensor_is_from_torch_that_wants_its_place_told(device):
    with pytest.raises(RuntimeError, match="memory_config must be specified when device is specified"):
        ttnn.as_tensor(torch.randn(32, 32), device=device)
    made = ttnn.as_tensor(
        torch.ones(32, 32), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
        memory_config=ttnn.L1_MEMORY_CONFIG, preprocess=lambda t: 2 * t,
    )  # fmt: skip
    assert ttnn.to_torch(made).unique().tolist() == [2.0]
    assert str(made.spec.memory) == "l1"


# ---- ttnn.graph ------------------------------------------------------------------------------------------------------


def test_a_graph_tells_the_peaks_that_real_ttnn_tells(device):
    x = ttnn.from_torch(torch.randn(1, 1, 384, 1024), device=device, **TILES)
    w = ttnn.from_torch(torch.randn(1, 1, 1024, 1024), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device)
    graph = ttnn.graph
    for peak, call in {
        161792: lambda: ttnn.softmax(x, -1),
        83968: lambda: ttnn.matmul(x, w),
        913664: lambda: ttnn.matmul(x, w, memory_config=ttnn.L1_MEMORY_CONFIG),
        401408: lambda: ttnn.layer_norm(x),
    }.items():
        graph.begin_graph_capture(graph.RunMode.NO_DISPATCH)
        made = call()
        captured = graph.end_graph_capture()
        assert graph.extract_peak_L1_memory_usage(captured) == peak
        assert made.shape == [1, 1, 384, 1024]
    graph.begin_graph_capture()
    assert graph.is_graph_capture_active()
    y = ttnn.add(x, x, memory_config=ttnn.L1_MEMORY_CONFIG)
    ttnn.relu(y)
    ttnn.deallocate(y)
    captured = graph.end_graph_capture()
    calls = ["ttnn.add", "BinaryNgDeviceOperation", "ttnn.relu", "UnaryDeviceOperation", "Tensor::deallocate"]
    assert [c for c in graph.extract_calltrace(captured) if c in calls][:5] == [*calls[:4], "Tensor::deallocate"]
    assert graph.extract_resource_usage_per_core(captured).peak_l1 == 2 * 6 * 2048
    assert "Function Start: ttnn.add" in graph.pretty_format(captured)
    assert not graph.is_graph_capture_active()
    with pytest.raises(RuntimeError, match="no graph is being captured"):
        graph.end_graph_capture()


# ---- one token of each user ------------------------------------------------------------------------------------------


def test_a_decode_step_attends_to_the_cache_up_to_its_position(device):
    users, heads, shared, size, length, at = 4, 8, 2, 64, 64, 33
    torch.manual_seed(0)
    fused = torch.randn(1, 1, users, (heads + 2 * shared) * size)
    keys, values = (torch.randn(users, shared, length, size) for _ in range(2))
    caches = [ttnn.from_torch(t, device=device, **TILES) for t in (keys, values)]
    q, k, v = ttnn.experimental.nlp_create_qkv_heads_decode(
        ttnn.from_torch(fused, device=device, **TILES), num_heads=heads, num_kv_heads=shared
    )
    for cache, new in zip(caches, (k, v)):
        ttnn.experimental.paged_update_cache(cache, new, update_idxs=[at] * users)
    found = ttnn.transformer.scaled_dot_product_attention_decode(q, *caches, cur_pos=[at] * users)
    near = device.last_ns
    joined = ttnn.to_torch(ttnn.experimental.nlp_concat_heads_decode(found, num_heads=heads)).float()
    parts = fused[0, 0].reshape(users, -1, size).split((heads, shared, shared), 1)
    keys[:, :, at], values[:, :, at] = parts[1], parts[2]
    want = F.scaled_dot_product_attention(
        parts[0][:, :, None], keys[:, :, : at + 1], values[:, :, : at + 1], enable_gqa=True
    )
    assert joined.shape == (1, 1, users, heads * size)
    assert torch.corrcoef(torch.stack([joined.flatten(), want.flatten()]))[0, 1] > 0.999
    with pytest.raises(RuntimeError, match="takes a position for each of its 4 users"):
        ttnn.transformer.scaled_dot_product_attention_decode(q, *caches)
    long = [ttnn.from_torch(torch.zeros(users, shared, 4096, size), device=device, **TILES) for _ in range(2)]
    ttnn.transformer.scaled_dot_product_attention_decode(q, *long, cur_pos=[4000] * users)
    assert device.last_ns > 2 * near


def test_rotary_turns_pairs_of_neighbours(device):
    swap = torch.zeros(1, 1, 32, 32)
    swap[..., torch.arange(0, 32, 2), torch.arange(1, 32, 2)] = 1
    swap[..., torch.arange(1, 32, 2), torch.arange(0, 32, 2)] = -1
    x, angle = torch.randn(1, 4, 8, 64), torch.rand(1, 4, 1, 32).repeat_interleave(2, -1)
    sent = [ttnn.from_torch(t, device=device, **TILES) for t in (x, angle.cos(), angle.sin(), swap)]
    found = ttnn.to_torch(ttnn.experimental.rotary_embedding_llama(*sent, is_decode_mode=True)).float()
    even, odd = x[..., ::2], x[..., 1::2]
    cos, sin = angle[..., ::2].cos(), angle[..., ::2].sin()
    want = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
    torch.testing.assert_close(found, want, atol=0.05, rtol=0.05)
