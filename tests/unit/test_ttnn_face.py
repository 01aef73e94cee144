"""Hand-written ttnn code runs on the embedded chip: names, arguments, refusals and numbers as ttnn has them."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from proveout import torch_ttnn, ttnn
from proveout.check.compare import pearson
from proveout.kernels.table import kernels

DEVICE = ttnn.open_device(device_id=0)


def on_device(tensor, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, **rest):
    return ttnn.from_torch(tensor, dtype=dtype, layout=layout, device=DEVICE, **rest)


def pcc(found, wanted):
    return pearson(ttnn.to_torch(found).double().flatten(), wanted.double().flatten())


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(math.prod(shape)))


# ---- devices and tensors -----------------------------------------------------------------------------------------


def test_there_is_one_device():
    assert ttnn.open_device(device_id=0, l1_small_size=16384).name == "sim:n150"
    with pytest.raises(RuntimeError, match="device 1 is not there: the embedded n150 has device 0"):
        ttnn.open_device(device_id=1)


def test_the_chip_can_be_chosen():
    assert ttnn.open_device(device_id=0, chip="p150").spec.arch == "blackhole"
    with pytest.raises(RuntimeError, match="chip 'n151' is not known; valid: n150, n300, p100, p150"):
        ttnn.open_device(device_id=0, chip="n151")


def test_a_device_can_be_waited_for_and_closed():
    device = ttnn.open_device(device_id=0)
    ttnn.synchronize_device(device)
    ttnn.close_device(device)


@pytest.mark.parametrize(
    ("dtype", "given_", "wanted"),
    [
        (ttnn.float32, torch.tensor([1.1, -2.5, 1e-30]), torch.tensor([1.1, -2.5, 1e-30])),
        (ttnn.bfloat16, torch.tensor([1.1, -2.5]), torch.tensor([1.1, -2.5]).bfloat16()),
        (ttnn.int32, torch.tensor([-5, 2**31 - 1]), torch.tensor([-5, 2**31 - 1], dtype=torch.int32)),
        (ttnn.uint32, torch.tensor([5, 2**32 - 1]), torch.tensor([5, 2**32 - 1], dtype=torch.uint32)),
        (ttnn.uint16, torch.tensor([5, 65535]), torch.tensor([5, 65535], dtype=torch.uint16)),
        (ttnn.uint8, torch.tensor([5, 255]), torch.tensor([5, 255], dtype=torch.uint8)),
    ],
    ids=["float32", "bfloat16", "int32", "uint32", "uint16", "uint8"],
)
@pytest.mark.parametrize("layout", [ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT], ids=["rows", "tiles"])
def test_every_dtype_goes_there_and_back(dtype, given_, wanted, layout):
    there = on_device(given_, dtype, layout)
    assert there.dtype == dtype
    assert there.layout == layout
    back = ttnn.to_torch(there)
    assert back.dtype == wanted.dtype
    assert torch.equal(back, wanted)


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        (torch.randn(2), ttnn.float32),
        (torch.randn(2).bfloat16(), ttnn.bfloat16),
        (torch.tensor([1, 2]), ttnn.int32),
        (torch.tensor([True, False]), ttnn.int32),
    ],
    ids=["float32", "bfloat16", "int64", "bool"],
)
def test_without_a_dtype_a_tensor_keeps_its_own_or_becomes_int32(tensor, dtype):
    assert ttnn.from_torch(tensor).dtype == dtype


@pytest.mark.parametrize(
    ("shape", "padded"),
    [((3, 5), (32, 32)), ((5,), (32, 32)), ((2, 33, 64), (2, 64, 64)), ((1, 1, 32, 32), (1, 1, 32, 32))],
)
def test_tiles_are_padded_and_rows_are_not(shape, padded):
    tiled, rows = (on_device(torch.zeros(shape), layout=layout) for layout in (ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT))
    assert tuple(tiled.shape) == tuple(rows.shape) == tuple(rows.padded_shape) == shape
    assert tuple(tiled.padded_shape) == padded
    back = ttnn.to_layout(tiled, ttnn.ROW_MAJOR_LAYOUT)
    assert back.layout == ttnn.ROW_MAJOR_LAYOUT
    assert tuple(ttnn.to_torch(back).shape) == shape


def test_a_tensor_knows_where_it_is():
    host = ttnn.from_torch(randn(4, 4), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)
    assert host.device() is None
    assert host.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert host.storage_type() == ttnn.StorageType.HOST
    there = ttnn.to_device(host, DEVICE)
    assert there.device() is DEVICE
    assert there.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert ttnn.to_device(host, DEVICE, memory_config=ttnn.L1_MEMORY_CONFIG).memory_config() == ttnn.L1_MEMORY_CONFIG
    moved = ttnn.to_memory_config(there, ttnn.L1_MEMORY_CONFIG)
    assert moved.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert ttnn.relu(moved).memory_config() == ttnn.L1_MEMORY_CONFIG
    assert ttnn.relu(moved, memory_config=ttnn.DRAM_MEMORY_CONFIG).memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert ttnn.from_device(moved).device() is None
    assert torch.equal(ttnn.to_torch(moved), ttnn.to_torch(host))


def test_a_result_is_on_its_operands_device():
    x = on_device(randn(4, 4))
    assert ttnn.add(x, 1.0).device() is DEVICE
    assert ttnn.full((2, 2), 1.0, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=DEVICE).device() is DEVICE


def test_sending_makes_a_copy():
    x = randn(4, 4)
    kept = x.clone()
    there = on_device(x, dtype=ttnn.float32)
    x.zero_()
    assert torch.equal(ttnn.to_torch(there), kept)


def test_fetching_makes_a_copy():
    there = on_device(torch.ones(4, 4))
    ttnn.to_torch(there).zero_()
    assert torch.equal(ttnn.to_torch(there), torch.ones(4, 4).bfloat16())
    again = ttnn.to_torch(there, torch.float32)
    again.zero_()
    assert ttnn.to_torch(there, dtype=torch.float32).sum() == 16


def test_a_tensor_prints_as_ttnns_does():
    text = repr(on_device(torch.ones(2, 2)))
    assert text.startswith("ttnn.Tensor(")
    assert text.endswith("shape=[2, 2], dtype=DataType.BFLOAT16, layout=Layout.TILE)")
    assert (str(ttnn.uint32), str(ttnn.ROW_MAJOR_LAYOUT)) == ("DataType.UINT32", "Layout.ROW_MAJOR")


# ---- calls -------------------------------------------------------------------------------------------------------

X, Y = on_device(randn(3, 5)), on_device(randn(5, 3))


@pytest.mark.parametrize(
    ("positional", "named"),
    [
        (lambda: ttnn.relu(X), lambda: ttnn.relu(input_tensor=X)),
        (lambda: ttnn.add(X, X), lambda: ttnn.add(input_tensor_a=X, input_tensor_b=X)),
        (lambda: ttnn.add(X, 2.0), lambda: ttnn.add(X, input_tensor_b=2.0)),
        (lambda: ttnn.div(X, 2.0), lambda: ttnn.div(X, value=2.0)),
        (lambda: ttnn.maximum(X, 0.5), lambda: ttnn.maximum(X, input_b=0.5)),
        (lambda: ttnn.maximum(X, X), lambda: ttnn.maximum(X, input_tensor_b=X)),
        (lambda: ttnn.matmul(X, Y), lambda: ttnn.matmul(input_tensor_a=X, input_tensor_b=Y)),
        (lambda: ttnn.softmax(X, 0), lambda: ttnn.softmax(X, dim=0)),
        (lambda: ttnn.sum(X, -1, True), lambda: ttnn.sum(X, dim=-1, keepdim=True)),
        (lambda: ttnn.reshape(X, (5, 3)), lambda: ttnn.reshape(X, shape=[5, 3])),
        (lambda: ttnn.permute(X, (1, 0)), lambda: ttnn.permute(X, dims=(1, 0))),
        (lambda: ttnn.transpose(X, 0, 1), lambda: ttnn.transpose(X, dim1=0, dim2=1)),
        (lambda: ttnn.concat([X, X], 1), lambda: ttnn.concat(tensors=(X, X), dim=1)),
        (lambda: ttnn.slice(X, (0, 1), (2, 4)), lambda: ttnn.slice(X, slice_start=(0, 1), slice_end=(2, 4))),
        (lambda: ttnn.pad(X, [(0, 1), (0, 2)], 0.0), lambda: ttnn.pad(X, padding=((0, 1), (0, 2)), value=0.0)),
        (lambda: ttnn.clamp(X, 0.0, 1.0), lambda: ttnn.clamp(X, min=0.0, max=1.0)),
        (lambda: ttnn.where(X, X, 0.0), lambda: ttnn.where(predicate=X, true_value=X, false_value=0.0)),
        (lambda: ttnn.pow(X, 2.0), lambda: ttnn.pow(X, exponent=2.0)),
        (lambda: ttnn.leaky_relu(X, 0.1), lambda: ttnn.leaky_relu(X, negative_slope=0.1)),
        (lambda: ttnn.typecast(X, ttnn.float32), lambda: ttnn.typecast(X, dtype=ttnn.float32)),
        (lambda: ttnn.to_layout(X, ttnn.ROW_MAJOR_LAYOUT), lambda: ttnn.to_layout(X, layout=ttnn.ROW_MAJOR_LAYOUT)),
    ],
)
def test_arguments_go_by_place_or_by_name(positional, named):
    one, two = positional(), named()
    assert one.spec == two.spec
    assert torch.equal(ttnn.to_torch(one), ttnn.to_torch(two))


def test_every_kernel_is_there_by_its_name():
    for name in kernels():
        found = ttnn
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert callable(found), name
    with pytest.raises(AttributeError, match=r"ttnn 0.81.1 has no ttnn\.fft"):
        _ = ttnn.fft
    with pytest.raises(AttributeError, match=r"ttnn\.fold is ttnn's and is not served yet; `proveout ops` lists"):
        _ = ttnn.fold
    with pytest.raises(AttributeError, match=r"ttnn\.transformer\.ring_mla is ttnn's"):
        _ = ttnn.transformer.ring_mla


def test_operators_are_calls():
    x, y = randn(3, 3), randn(3, 3) + 1
    a, b = on_device(x, ttnn.float32), on_device(y, ttnn.float32)
    for found, wanted in (
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (a @ b, x @ y),
        (a + 1.0, x + 1),
        (a * 2.0, x * 2),
    ):
        torch.testing.assert_close(ttnn.to_torch(found), wanted)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ttnn.relu(),
        lambda: ttnn.relu(X, X),
        lambda: ttnn.relu(3.0),
        lambda: ttnn.relu(torch.ones(3)),
        lambda: ttnn.relu(X, inplace=True),
        lambda: ttnn.relu(X, input_tensor=X),
        lambda: ttnn.matmul(X),
        lambda: ttnn.matmul(X, 2.0),
        lambda: ttnn.softmax(X, axis=-1),
        lambda: ttnn.layer_norm(X, 1e-5),
        lambda: ttnn.conv2d(X),
        lambda: ttnn.leaky_relu(X),
        lambda: ttnn.add(X, "one"),
    ],
    ids=[
        "nothing",
        "too many",
        "a number for a tensor",
        "torch's tensor",
        "unknown",
        "twice",
        "one operand",
        "a number to multiply",
        "another library's name",
        "a keyword by place",
        "nearly all missing",
        "a required one missing",
        "a string",
    ],
)
def test_wrong_arguments_are_a_type_error(wrong):
    with pytest.raises(TypeError):
        wrong()


def test_a_type_error_names_the_function():
    with pytest.raises(TypeError, match=r"ttnn\.matmul\(\): incompatible function arguments"):
        ttnn.matmul(X)


ROWS = ttnn.to_layout(X, ttnn.ROW_MAJOR_LAYOUT)
WHOLE = on_device(randn(1, 2, 32, 32))
INTS = on_device(torch.ones(3, 5), ttnn.int32)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: ttnn.softmax(ROWS), "input_tensor must be in tile layout, not row_major"),
        (lambda: ttnn.argmax(X, dim=-1), "input_tensor must be in row_major layout, not tile"),
        (lambda: ttnn.exp(INTS), "ttnn.exp takes .* not int32"),
        (lambda: ttnn.pad(X, [(1, 0), (0, 0)], 0.0), "does not pad at the front"),
        (lambda: ttnn.where(X, X, on_device(randn(3, 5), ttnn.float32)), "two values of one dtype"),
        (
            lambda: ttnn.transformer.scaled_dot_product_attention(*[on_device(randn(1, 2, 32, 80))] * 3),
            "a head size that is a multiple of 32, not 80",
        ),
        (
            lambda: ttnn.transformer.scaled_dot_product_attention(
                WHOLE, WHOLE, WHOLE, attn_mask=on_device(randn(1, 1, 32, 32))
            ),
            "causal or takes a mask, not both",
        ),
        (
            lambda: ttnn.embedding(ttnn.to_layout(INTS, ttnn.ROW_MAJOR_LAYOUT), ROWS),
            "takes uint32 indices, not int32",
        ),
    ],
    ids=["rows", "tiles", "integers", "front", "dtypes", "head size", "mask", "indices"],
)
def test_what_ttnn_refuses_is_a_runtime_error(refused, words):
    with pytest.raises(RuntimeError, match=f"TT_FATAL: .*{words}"):
        refused()


def test_shapes_that_do_not_fit_are_a_runtime_error():
    with pytest.raises(RuntimeError):
        ttnn.matmul(X, X)
    with pytest.raises(RuntimeError):
        ttnn.reshape(X, (4, 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda: ttnn.exp(X, fast_and_approximate_mode=True),
        lambda: ttnn.permute(X, (1, 0), pad_value=0.0),
        lambda: ttnn.sum(X, scalar=2.0),
        lambda: ttnn.full((2, 2), 1.0, device=DEVICE),
    ],
    ids=["approximate", "pad value", "scalar", "default dtype"],
)
def test_valid_calls_run_or_say_what_is_not_served(call):
    try:
        call()
    except RuntimeError as error:
        assert "not served" in str(error)  # noqa: PT017


def test_a_freed_tensor_cannot_be_used():
    x = on_device(randn(2, 2))
    ttnn.deallocate(x)
    with pytest.raises(RuntimeError):
        ttnn.relu(x)


def test_a_tensor_on_the_host_is_refused():
    with pytest.raises(RuntimeError):
        ttnn.relu(ttnn.from_torch(randn(2, 2), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT))


# ---- numbers -----------------------------------------------------------------------------------------------------

UNARY = {
    "relu": torch.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "exp": torch.exp,
    "neg": torch.neg, "square": torch.square, "sin": torch.sin, "hardswish": F.hardswish, "mish": F.mish,
    "erf": torch.erf,
}  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(UNARY)),
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.sampled_from([ttnn.float32, ttnn.bfloat16]),
)
def test_element_wise_kernels_compute_what_torch_computes(name, shape, dtype):
    x = randn(*shape)
    found = ttnn.to_torch(getattr(ttnn, name)(on_device(x, dtype))).float()
    tolerance = {} if dtype == ttnn.float32 else {"rtol": 0.03, "atol": 0.03}
    torch.testing.assert_close(found, UNARY[name](x), **tolerance)


def test_a_small_network_by_hand():
    x, w1, b1, w2, b2 = randn(16, 64), randn(64, 128) / 8, randn(128), randn(128, 32) / 11, randn(32)
    wanted = F.gelu(x @ w1 + b1) @ w2 + b2
    hidden = ttnn.linear(on_device(x), on_device(w1), bias=on_device(b1), activation="gelu")
    found = ttnn.linear(hidden, on_device(w2), bias=on_device(b2), memory_config=ttnn.L1_MEMORY_CONFIG)
    assert found.dtype == ttnn.bfloat16
    assert pcc(found, wanted) >= 0.999


@pytest.mark.parametrize("fused", [True, False], ids=["one kernel", "in parts"])
def test_an_attention_layer_by_hand(fused):
    batch, heads, length, depth = 2, 4, 32, 32
    x, w, g = (
        randn(batch, length, heads * depth),
        randn(heads * depth, 3 * heads * depth) / 11,
        torch.ones(heads * depth),
    )

    def split(t):
        return t.view(batch, length, heads, depth).transpose(1, 2)

    normed = F.layer_norm(x, (heads * depth,), g, None, 1e-5)
    q, k, v = map(split, (normed @ w).chunk(3, -1))
    wanted = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, -1) + x

    t = ttnn.layer_norm(on_device(x), epsilon=1e-5, weight=on_device(g))
    t = ttnn.matmul(t, on_device(w))
    parts = []
    for i in range(3):
        part = ttnn.slice(t, (0, 0, i * heads * depth), (batch, length, (i + 1) * heads * depth))
        parts.append(ttnn.permute(ttnn.reshape(part, (batch, length, heads, depth)), (0, 2, 1, 3)))
    if fused:
        found = ttnn.transformer.scaled_dot_product_attention(*parts, is_causal=False)
    else:
        scores = ttnn.multiply(ttnn.matmul(parts[0], parts[1], transpose_b=True), 1 / math.sqrt(depth))
        found = ttnn.matmul(ttnn.softmax(scores, dim=-1), parts[2])
    found = ttnn.reshape(ttnn.permute(found, (0, 2, 1, 3)), (batch, length, heads * depth))
    assert pcc(ttnn.add(found, on_device(x)), wanted) >= 0.99


def test_a_convolution_and_a_pool_by_hand():
    x, w, b = randn(2, 3, 8, 8), randn(4, 3, 3, 3), randn(4)
    wanted = F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2)
    rows = ttnn.ROW_MAJOR_LAYOUT
    found = ttnn.conv2d(
        input_tensor=on_device(x.permute(0, 2, 3, 1).reshape(1, 1, 128, 3), layout=rows),
        weight_tensor=ttnn.from_torch(w, dtype=ttnn.bfloat16),
        bias_tensor=ttnn.from_torch(b.view(1, 1, 1, 4), dtype=ttnn.bfloat16),
        device=DEVICE, in_channels=3, out_channels=4, batch_size=2, input_height=8, input_width=8,
        kernel_size=(3, 3), padding=(1, 1),
    )  # fmt: skip
    assert tuple(found.shape) == (1, 1, 128, 4)
    assert found.layout == ttnn.TILE_LAYOUT
    found = ttnn.to_layout(ttnn.relu(found), rows)
    pooled = ttnn.max_pool2d(
        found,
        batch_size=2,
        input_h=8,
        input_w=8,
        channels=4,
        kernel_size=(2, 2),
        stride=(2, 2),
        padding=(0, 0),
        dilation=(1, 1),
    )
    assert pcc(pooled, wanted.permute(0, 2, 3, 1).reshape(1, 1, 32, 4)) >= 0.999


def test_an_embedding_by_hand():
    ids, table = torch.tensor([[1, 4, 0]]), randn(6, 32)
    rows = {"layout": ttnn.ROW_MAJOR_LAYOUT}
    found = ttnn.embedding(on_device(ids, ttnn.uint32, **rows), on_device(table, **rows), layout=ttnn.TILE_LAYOUT)
    assert found.layout == ttnn.TILE_LAYOUT
    assert torch.equal(ttnn.to_torch(found), table.bfloat16()[ids])


def test_argmax_gives_uint32():
    x = randn(4, 9)
    found = ttnn.argmax(on_device(x, layout=ttnn.ROW_MAJOR_LAYOUT), dim=-1)
    assert found.dtype == ttnn.uint32
    assert ttnn.to_torch(found).tolist() == x.bfloat16().argmax(-1).tolist()


# ---- the original's names ----------------------------------------------------------------------------------------


def test_the_originals_option_takes_our_settings():
    option = torch_ttnn.TorchTtnnOption(device=DEVICE, precision="bfloat16")
    assert option.proveout_options["device"] is DEVICE
    assert option.proveout_options["settings"].precision == "bfloat16"
    with pytest.raises(ValueError, match="unknown setting 'precison'"):
        torch_ttnn.TorchTtnnOption(precison="bfloat16")


def test_every_function_of_one_kernel_has_a_golden_one_and_others_have_none():
    x = torch.arange(6.0).reshape(2, 3)
    assert ttnn.get_golden_function(ttnn.reshape)(input_tensor=x, shape=(3, 2)).shape == (3, 2)
    inside = ttnn.get_golden_function(ttnn.transformer.scaled_dot_product_attention)
    assert callable(inside)
    for other in (torch.add, ttnn.open_device):
        with pytest.raises(RuntimeError, match="does not have a golden function"):
            ttnn.get_golden_function(other)
