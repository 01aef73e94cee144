"""Where hand-written tensors lie: memory configs, shards, addresses, and what does not fit."""

from __future__ import annotations

import gc

import pytest
import torch

from proveout import ttnn

TILES = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT}


@pytest.fixture
def device():
    return ttnn.open_device(device_id=0)


def send(device, *shape, **more):
    return ttnn.from_torch(torch.ones(shape), device=device, **{**TILES, **more})


# ---- configs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (ttnn.MemoryConfig(), "ttnn.DRAM_MEMORY_CONFIG"),
        (
            ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.L1),
            "ttnn.L1_MEMORY_CONFIG",
        ),
        (ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG, "ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG"),
        (
            ttnn.create_sharded_memory_config((64, 32), ttnn.CoreGrid(x=1, y=2), ttnn.ShardStrategy.HEIGHT),
            "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec("
            "ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(0, 1))]), [32, 32], "
            "ttnn.ShardOrientation.ROW_MAJOR))",
        ),
    ],
    ids=["DRAM", "L1", "no shard spec", "height"],
)
def test_a_memory_config_is_text_that_python_reads_back(config, text):
    assert str(config.arg) == text
    assert eval(text) == config


@pytest.mark.parametrize(
    ("strategy", "orientation", "shard"),
    [
        ("HEIGHT", "ROW_MAJOR", (8, 96)),
        ("WIDTH", "ROW_MAJOR", (64, 12)),
        ("BLOCK", "ROW_MAJOR", (32, 24)),
        ("BLOCK", "COL_MAJOR", (16, 48)),
    ],
)
def test_shards_cover_a_shape_evenly(strategy, orientation, shard):
    config = ttnn.create_sharded_memory_config(
        (2, 32, 96),
        ttnn.CoreGrid(x=4, y=2),
        getattr(ttnn.ShardStrategy, strategy),
        getattr(ttnn.ShardOrientation, orientation),
    )
    assert config.shard_spec.shape == shard
    assert config.is_sharded()
    assert config.buffer_type == ttnn.BufferType.L1


def test_a_shape_that_the_grid_does_not_divide_is_refused_or_rounded_up():
    grid = ttnn.CoreGrid(x=3, y=1)
    with pytest.raises(RuntimeError, match="Invalid sharding core_grid: 64x32 is not cut evenly into 3x1 height"):
        ttnn.create_sharded_memory_config((64, 32), grid, ttnn.ShardStrategy.HEIGHT)
    made, row = ttnn.create_sharded_memory_config_, ttnn.ShardOrientation.ROW_MAJOR
    assert made((64, 32), grid, ttnn.ShardStrategy.HEIGHT, row).shard_spec.shape == (22, 32)
    assert made((60, 32), grid, ttnn.ShardStrategy.HEIGHT, row, tile_layout=True).shard_spec.shape == (22, 32)
    block = made((100, 100), ttnn.CoreGrid(x=3, y=2), ttnn.ShardStrategy.BLOCK, row, tile_layout=True)
    assert block.shard_spec.shape == (64, 34)
    with pytest.raises(RuntimeError, match="Incorrect tensor shape: a width of 30"):
        made((60, 30), grid, ttnn.ShardStrategy.HEIGHT, row, tile_layout=True)
    with pytest.raises(RuntimeError, match="Invalid type of shard orientation"):
        made((64, 32), grid, ttnn.ShardStrategy.HEIGHT, None)
    whole = ttnn.create_sharded_memory_config(
        (2, 32, 64), grid, ttnn.ShardStrategy.HEIGHT, use_height_and_width_as_shard_shape=True
    )
    assert whole.shard_spec.shape == (32, 64)


def test_block_shards_need_a_rectangle():
    first, second = (
        ttnn.CoreRange(ttnn.CoreCoord(0, y), ttnn.CoreCoord(x, y)) for x, y in ((1, 0), (0, 1))
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="block sharding needs one rectangle"):
        ttnn.create_sharded_memory_config((64, 64), ttnn.CoreRangeSet([first, second]), ttnn.ShardStrategy.BLOCK)


@pytest.mark.parametrize(("row_wise", "ends"), [(True, [(7, 0), (1, 1)]), (False, [(0, 6), (1, 2)])])
def test_the_first_cores_of_a_grid_go_row_by_row_or_column_by_column(row_wise, ends):
    cores = ttnn.num_cores_to_corerangeset(10, ttnn.CoreCoord(8, 7), row_wise)
    assert cores.num_cores() == 10
    assert {(r.end.x, r.end.y) for r in cores.ranges()} == set(ends)
    with pytest.raises(RuntimeError, match="57 cores do not fit a grid of 8x7"):
        ttnn.num_cores_to_corerangeset(57, ttnn.CoreCoord(8, 7))


# ---- tensors in shards ---------------------------------------------------------------------------------------------


def test_a_tensor_goes_into_shards_and_back(device):
    x = send(device, 256, 64)
    config = ttnn.create_sharded_memory_config((256, 64), ttnn.CoreGrid(x=8, y=1), ttnn.ShardStrategy.HEIGHT)
    there = ttnn.to_memory_config(x, config)
    assert there.is_sharded()
    assert there.memory_config() == config
    assert there.memory_config().shard_spec.shape == (32, 64)
    assert ttnn.relu(there).memory_config().memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    wide = ttnn.create_sharded_memory_config((256, 64), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.WIDTH)
    assert ttnn.reshard(there, wide).memory_config() == wide
    back = ttnn.sharded_to_interleaved(there, ttnn.L1_MEMORY_CONFIG)
    assert back.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert torch.equal(ttnn.to_torch(back), ttnn.to_torch(x))


def test_a_result_of_another_shape_is_not_in_its_operands_shards(device):
    config = ttnn.create_sharded_memory_config((256, 64), ttnn.CoreGrid(x=8, y=1), ttnn.ShardStrategy.HEIGHT)
    there = ttnn.to_memory_config(send(device, 256, 64), config)
    assert ttnn.sum(there, dim=-1, keepdim=True).memory_config() == ttnn.L1_MEMORY_CONFIG


@pytest.mark.parametrize(
    ("shape", "grid", "words"),
    [
        ((256, 64), (16, 1), "16x1 cores does not fit n150's 8x8"),
        ((128, 64), (8, 1), "shards in tile layout are whole tiles, not 16x64"),
        ((512, 32), (8, 1), "full width of 64, not 32"),
        ((64, 64), (2, 1), "8 shards need as many cores; the grid has 2"),
    ],
)
def test_shards_that_do_not_fit_the_tensor_or_the_chip_are_refused(device, shape, grid, words):
    config = ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(x=grid[0], y=grid[1]), ttnn.ShardStrategy.HEIGHT)
    with pytest.raises(RuntimeError, match=f"TT_FATAL: .*{words}"):
        ttnn.to_memory_config(send(device, 256, 64), config)


def test_a_move_into_shards_needs_to_know_them(device):
    with pytest.raises(RuntimeError, match="L1_HEIGHT_SHARDED_MEMORY_CONFIG has no shard spec"):
        ttnn.to_memory_config(send(device, 32, 32), ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG)


# ---- allocation ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tensor_is_freed_with_its_last_name(device):
    x = send(device, 64, 64, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert device.memories.used("l1") == 2048
    x = ttnn.relu(x)
    gc.collect()
    assert device.memories.used("l1") == 2048
    del x
    assert device.memories.used("l1") == 0


def test_a_freed_address_is_given_again(device):
    first = send(device, 32, 32)
    address = first.buffer_address()
    assert send(device, 32, 32).buffer_address() != address
    ttnn.deallocate(first)
    assert not first.is_allocated()
    assert send(device, 32, 32).buffer_address() == address
    with pytest.raises(RuntimeError, match="no buffer on a device"):
        first.buffer_address()


def test_dram_fills_from_the_bottom_and_l1_from_the_top(device):
    dram = [send(device, 32, 32).buffer_address(), (kept := send(device, 32, 32)).buffer_address()]
    l1 = [send(device, 32, 32, memory_config=ttnn.L1_MEMORY_CONFIG) for _ in range(2)]
    assert dram[0] == 0
    assert l1[0].buffer_address() > l1[1].buffer_address()
    assert kept.is_allocated()


def test_reallocate_moves_down_into_a_hole(device):
    first, second = send(device, 32, 32), send(device, 32, 32)
    low = first.buffer_address()
    ttnn.deallocate(first)
    moved = ttnn.reallocate(second)
    assert moved.buffer_address() == low
    assert not second.is_allocated()


def test_out_of_memory_says_what_was_asked_and_what_is_free(device):
    kept = send(device, 4096, 4096, memory_config=ttnn.L1_MEMORY_CONFIG)
    words = (
        r"Out of Memory: Not enough space to allocate 67108864 B L1 buffer across 64 banks, where each bank needs to "
        r"store 1048576 B, but bank size is \d+ B \(allocated: 524288 B, free: \d+ B, largest free block: \d+ B\)"
    )
    with pytest.raises(RuntimeError, match=words):
        ttnn.concat([kept, kept], 0, memory_config=ttnn.L1_MEMORY_CONFIG)


def test_regions_asked_for_are_taken_from_the_memory():
    small = ttnn.open_device(device_id=0, l1_small_size=1_300_000)
    with pytest.raises(RuntimeError, match="bank size is 93472 B"):
        send(small, 2048, 2048, memory_config=ttnn.L1_MEMORY_CONFIG)
    with pytest.raises(RuntimeError, match="nothing of L1 is left"):
        ttnn.open_device(device_id=0, l1_small_size=2_000_000)


def test_a_tensor_that_was_never_written_cannot_be_read(device):
    x = ttnn.allocate_tensor_on_device(ttnn.Shape([32, 32]), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    with pytest.raises(RuntimeError, match="allocated and never written"):
        ttnn.to_torch(x)
    ttnn.copy_host_to_device_tensor(ttnn.from_torch(torch.ones(32, 32), **TILES), x)
    assert ttnn.to_torch(x).sum() == 1024


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (
            ttnn.from_torch(torch.ones(32, 64), **TILES),
            r"different shape: \(32, 64\), where the .* is \(32, 32\)",
        ),
        (ttnn.from_torch(torch.ones(32, 32), layout=ttnn.TILE_LAYOUT), "Host tensor has different dtype: float32"),
        (ttnn.from_torch(torch.ones(32, 32), dtype=ttnn.bfloat16), "Host tensor has different layout: row_major"),
    ],
)
def test_only_a_tensor_of_the_same_kind_is_copied_over_another(device, host, words):
    with pytest.raises(RuntimeError, match=words):
        ttnn.copy_host_to_device_tensor(host, send(device, 32, 32))


def test_a_result_goes_where_it_is_told_to(device):
    x, out = send(device, 32, 32), send(device, 32, 32)
    address = out.buffer_address()
    same = ttnn.add(x, x, output_tensor=out)
    assert same is out
    assert out.buffer_address() == address
    assert ttnn.to_torch(out).unique().tolist() == [2.0]
    with pytest.raises(RuntimeError, match=r"the output tensor is .* where the call gives"):
        ttnn.add(x, x, output_tensor=send(device, 64, 32))


def test_calls_in_place_write_over_their_first_operand(device):
    x = send(device, 32, 32)
    y = ttnn.add_(x, 2.0)
    ttnn.multiply_(x, x)
    assert y.buffer_address() == x.buffer_address()
    assert ttnn.to_torch(x).unique().tolist() == [9.0]


def test_a_closed_device_takes_no_calls(device):
    x = send(device, 32, 32)
    ttnn.close_device(device)
    with pytest.raises(RuntimeError, match="the device was closed"):
        ttnn.relu(x)


@pytest.mark.parametrize(
    ("name", "other", "wanted"),
    [
        ("add_", 2.0, 3.0),
        ("subtract_", 2.0, -1.0),
        ("multiply_", 4.0, 4.0),
        ("divide_", 4.0, 0.25),
        ("rsub_", 4.0, 3.0),
    ],
)
def test_each_call_in_place_takes_numbers_and_tensors(device, name, other, wanted):
    for operand in (float(other), ttnn.full_like(send(device, 32, 32), float(other))):
        x = send(device, 32, 32)
        getattr(ttnn, name)(x, operand)
        assert ttnn.to_torch(x).unique().tolist() == [wanted]
