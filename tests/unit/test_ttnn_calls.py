"""Calls of hand-written ttnn beyond single kernels: configs, fused activations, indexing, recordings."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from proveout import ttnn
from proveout.kernels.signatures import names, signatures
from proveout.kernels.table import kernels
from proveout.program import Ref
from proveout.ttnn.calls import SERVED

DEVICE = ttnn.open_device(device_id=0)
TILES = {"dtype": ttnn.float32, "layout": ttnn.TILE_LAYOUT}


def send(tensor, **more):
    return ttnn.from_torch(tensor, device=DEVICE, **{**TILES, **more})


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def close(found, wanted):
    torch.testing.assert_close(ttnn.to_torch(found), wanted, rtol=1e-5, atol=1e-5)


# ---- names ---------------------------------------------------------------------------------------------------------


def test_everything_served_is_ttnns_and_has_its_signature():
    for name in SERVED:
        assert name in names() or name in kernels(), name
        assert name in signatures(), name


@pytest.mark.parametrize(
    ("member", "text", "printed"),
    [
        (ttnn.DataType.BFLOAT16, "ttnn.bfloat16", "DataType.BFLOAT16"),
        (ttnn.Layout.TILE, "ttnn.TILE_LAYOUT", "Layout.TILE"),
        (ttnn.BufferType.L1, "ttnn.BufferType.L1", "BufferType.L1"),
        (ttnn.MathFidelity.HiFi4, "ttnn.MathFidelity.HiFi4", "MathFidelity.HiFi4"),
        (ttnn.UnaryOpType.GELU, "ttnn.UnaryOpType.GELU", "UnaryOpType.GELU"),
    ],
)
def test_enumerations_are_ttnns(member, text, printed):
    assert (member.text, str(member)) == (text, printed)
    assert eval(text) == member
    assert member.name == printed.split(".")[1]


def test_enumerations_keep_ttnns_order():
    assert [m.value for m in (ttnn.BufferType.DRAM, ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL)] == [0, 1, 2]
    assert ttnn.DataType.BFLOAT16 is not None
    assert ttnn.bfloat16 == ttnn.DataType.BFLOAT16


def test_a_shape_compares_with_lists_and_tuples():
    shape = send(torch.ones(2, 3)).shape
    assert shape == [2, 3]
    assert shape == (2, 3)
    assert shape != [3, 2]
    assert (shape.rank, shape[-1], repr(shape)) == (2, 3, "Shape([2, 3])")
    assert torch.zeros(shape).shape == (2, 3)


# ---- configs -------------------------------------------------------------------------------------------------------


def test_a_config_takes_ttnns_fields_and_no_others():
    config = ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b)
    config.act_block_h_override = 32
    assert config.act_block_h_override == 32
    assert config.deallocate_activation is False
    assert str(config.arg) == "ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b, act_block_h_override=32)"
    assert eval(str(config.arg)) == config
    with pytest.raises(TypeError, match=r"Conv2dConfig\(\): incompatible function arguments: it has no 'wieghts'"):
        ttnn.Conv2dConfig(wieghts=1)
    with pytest.raises(TypeError, match="it has no 'colour'"):
        config.colour = 1
    with pytest.raises(AttributeError, match="has no 'colour'"):
        _ = config.colour


def test_a_required_field_is_required():
    with pytest.raises(TypeError, match=r"\['k_chunk_size'\] missing"):
        ttnn.SDPAProgramConfig(compute_with_storage_grid_size=ttnn.CoreCoord(8, 8), q_chunk_size=32)


def test_program_configs_are_text_with_cores_in_it():
    config = ttnn.MatmulMultiCoreReuseProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(8, 8),
        in0_block_w=1,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=1,
        per_core_N=1,
    )
    assert "compute_with_storage_grid_size=ttnn.CoreCoord(8, 8), in0_block_w=1" in str(config.arg)
    assert eval(str(config.arg)) == config
    a = randn(32, 32)
    close(ttnn.matmul(send(a), send(a), program_config=config, core_grid=DEVICE.core_grid), a @ a)


def test_the_compute_config_decides_the_modelled_time():
    a = send(torch.ones(1024, 1024), dtype=ttnn.bfloat16)
    took = {}
    for fidelity in ("LoFi", "HiFi4"):
        config = ttnn.WormholeComputeKernelConfig(math_fidelity=getattr(ttnn.MathFidelity, fidelity))
        ttnn.matmul(a, a, compute_kernel_config=config)
        took[fidelity] = DEVICE.last_ns
    assert took["LoFi"] < took["HiFi4"]


# ---- fused activations -----------------------------------------------------------------------------------------------

UNARY = ttnn.UnaryOpType


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x: ttnn.linear(x, x, activation="relu"), lambda x: F.relu(x @ x)),
        (lambda x: ttnn.linear(x, x, activation=ttnn.UnaryWithParam(UNARY.SILU)), lambda x: F.silu(x @ x)),
        (lambda x: ttnn.add(x, 1.0, activations=[UNARY.RELU]), lambda x: F.relu(x + 1)),
        (
            lambda x: ttnn.add(x, 1.0, activations=[ttnn.UnaryWithParam(UNARY.LEAKY_RELU, 0.1)]),
            lambda x: F.leaky_relu(x + 1, 0.1),
        ),
        (
            lambda x: ttnn.multiply(x, x, input_tensor_a_activations=[ttnn.UnaryWithParam(UNARY.SILU)]),
            lambda x: F.silu(x) * x,
        ),
    ],
    ids=["text", "linear", "binary", "parameter", "operand"],
)
def test_a_fused_activation_is_computed(call, wanted):
    x = randn(32, 32)
    close(call(send(x)), wanted(x))


def convolved(**more):
    x, w = randn(1, 4, 6, 6), randn(8, 4, 3, 3)
    call = {
        "input_tensor": ttnn.from_torch(x.permute(0, 2, 3, 1).reshape(1, 1, 36, 4), device=DEVICE),
        "weight_tensor": ttnn.from_torch(w), "device": DEVICE, "in_channels": 4, "out_channels": 8, "batch_size": 1,
        "input_height": 6, "input_width": 6, "kernel_size": (3, 3),
    }  # fmt: skip
    return call, ttnn.conv2d(**call, **more), F.conv2d(x, w).permute(0, 2, 3, 1).reshape(1, 1, 16, 8)


def test_a_convolutions_config_is_heeded():
    config = ttnn.Conv2dConfig(activation=ttnn.UnaryWithParam(UNARY.RELU), deallocate_activation=True)
    call, found, wanted = convolved(conv_config=config)
    close(found, F.relu(wanted))
    assert not call["input_tensor"].is_allocated()
    _, found, wanted = convolved(conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat4_b))
    difference = (ttnn.to_torch(found) - wanted).abs().max()
    assert 0.01 < difference < 3


def test_a_convolution_gives_sizes_and_prepared_weights_when_asked():
    call, (found, size, (weight, bias)), wanted = convolved(return_output_dim=True, return_weights_and_bias=True)
    close(found, wanted)
    assert size == (4, 4)
    assert weight.device() is DEVICE
    assert bias is None
    close(ttnn.conv2d(**{**call, "weight_tensor": weight}), wanted)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [((3, 2), (2, 1), (1, 0), (1, 1)), ((2, 2), (1, 2), (0, 1, 2, 0), (2, 1))],
)
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_the_output_size_told_is_the_output_size(name, kernel, stride, padding, dilation):
    if name == "conv_transpose2d" and len(padding) == 4:
        padding = (0, 1)
    shape = (4, 4, *kernel)
    found, (height, width) = getattr(ttnn, name)(
        input_tensor=ttnn.from_torch(randn(1, 1, 42, 4), device=DEVICE), weight_tensor=ttnn.from_torch(randn(*shape)),
        device=DEVICE, in_channels=4, out_channels=4, batch_size=1, input_height=6, input_width=7, kernel_size=kernel,
        stride=stride, padding=padding, dilation=dilation, return_output_dim=True,
    )  # fmt: skip
    assert found.shape[-2] == height * width


# ---- indexing and operators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [
        (slice(0, 2),), (slice(None), slice(1, 5, 2)), (0,), (slice(None), -1), (Ellipsis, slice(2, 4)),
        (1, Ellipsis, slice(0, 3)), (None, slice(0, 1)), (slice(None),), (slice(-2, None), 0, slice(None, -1)),
    ],
)  # fmt: skip
def test_indexing_is_torchs(index):
    x = randn(4, 6, 8)
    close(send(x)[index], x[index])


def test_indexing_outside_is_refused():
    x = send(randn(2, 2))
    with pytest.raises(IndexError, match="index 2 is out of range for a dimension of 2"):
        _ = x[2]
    with pytest.raises(IndexError, match="3 indices for 2 dimensions"):
        _ = x[0, 0, 0]
    with pytest.raises(RuntimeError, match="steps above 0"):
        _ = x[::-1]


@pytest.mark.parametrize(
    "operate",
    [
        lambda a, b: a / b, lambda a, b: 1.0 + a, lambda a, b: 2.0 * a, lambda a, b: 1.0 - a,
        lambda a, b: 2.0 / b, lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b,
    ],
)  # fmt: skip
def test_operators_are_torchs(operate):
    a, b = randn(4, 4), torch.rand(4, 4) + 1
    torch.testing.assert_close(ttnn.to_torch(operate(send(a), send(b))), operate(a, b).float())


# ---- calls that others serve -----------------------------------------------------------------------------------------

X = randn(2, 1, 8, 64)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x: ttnn.squeeze(x, 1), X.squeeze(1)),
        (lambda x: ttnn.squeeze(x), X.squeeze()),
        (lambda x: ttnn.unsqueeze(x, -1), X.unsqueeze(-1)),
        (lambda x: ttnn.unsqueeze_to_4D(x[0, 0]), X[:1]),
        (lambda x: ttnn.split(x, 24, dim=3)[2], X[..., 48:]),
        (lambda x: ttnn.split(x, [1, 7], dim=2)[1], X[:, :, 1:]),
        (lambda x: ttnn.chunk(x, 2, 0)[1], X[1:]),
        (lambda x: ttnn.zeros_like(x), torch.zeros_like(X)),
        (lambda x: ttnn.full_like(x, 2.5), torch.full_like(X, 2.5)),
        (lambda x: ttnn.ones([2, 2], dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=DEVICE), torch.ones(2, 2)),
        (lambda x: ttnn.arange(0, 6, 2, dtype=ttnn.float32), torch.arange(0, 6, 2).float()),
        (lambda x: ttnn.swish(x), F.silu(X)),
        (lambda x: ttnn.clip(x, -1.0, 1.0), X.clamp(-1, 1)),
        (lambda x: ttnn.sub(ttnn.mul(x, 3.0), x), 2 * X),
        (lambda x: ttnn.transformer.attention_softmax(x, head_size=16), torch.softmax(X / 4, -1)),
        (lambda x: ttnn.transformer.attention_softmax_(x, head_size=None), torch.softmax(X, -1)),
        (lambda x: ttnn.experimental.nlp_concat_heads(x), X.transpose(1, 2).reshape(2, 1, 8, 64)),
        (lambda x: ttnn.transformer.concatenate_heads(x), X.transpose(1, 2).reshape(2, 8, 64)),
        (lambda x: ttnn.typecast(ttnn.typecast(x, ttnn.float32, ttnn.bfloat16), ttnn.float32), X.bfloat16().float()),
        (lambda x: ttnn.untilize(x), X),
        (lambda x: ttnn.clone(x, memory_config=ttnn.L1_MEMORY_CONFIG), X),
    ],
)
def test_composed_calls_compute_what_torch_computes(call, wanted):
    close(call(send(X)), wanted)


def test_heads_of_parts_of_tiles_are_refused():
    with pytest.raises(RuntimeError, match="Head size must be a multiple of 32 but was found to be 20"):
        ttnn.transformer.concatenate_heads(send(randn(1, 2, 4, 20)))
    with pytest.raises(RuntimeError, match=r"takes \[batch, 1, length, width\]"):
        ttnn.experimental.nlp_create_qkv_heads(send(randn(1, 2, 4, 96)), num_heads=1)


def test_a_cast_on_the_host_is_the_hosts():
    host = ttnn.from_torch(randn(4, 4))
    assert ttnn.to_dtype(host, ttnn.bfloat16).dtype == ttnn.bfloat16
    assert ttnn.to_dtype(host, ttnn.bfloat16).device() is None
    with pytest.raises(RuntimeError, match=r"takes tensors on the host; use ttnn\.typecast"):
        ttnn.to_dtype(send(randn(4, 4)), ttnn.bfloat16)


def test_what_is_not_served_says_so():
    x = send(randn(32, 32))
    with pytest.raises(NotImplementedError, match=r"ttnn\.layer_norm: .*recip_tensor.* not served yet"):
        ttnn.layer_norm(x, recip_tensor=x)
    with pytest.raises(NotImplementedError, match=r"ttnn\.UnaryOpType\.FMOD as an activation is not served yet"):
        ttnn.add(x, x, activations=[UNARY.FMOD])


# ---- recordings ------------------------------------------------------------------------------------------------------


def test_a_recording_has_inputs_weights_and_outputs():
    weight = send(randn(32, 32))
    with ttnn.record("small") as recording:
        y = ttnn.to_torch(ttnn.matmul(send(randn(4, 32)), weight))
    program = recording.program
    assert [s.kernel for s in program.setup] == ["ttnn.from_torch"]
    kernels_ = [s.kernel for s in program.body if s.kernel != "ttnn.deallocate"]
    assert kernels_ == ["ttnn.from_torch", "ttnn.matmul", "ttnn.to_torch"]
    assert (program.inputs, program.weights) == (("input_0",), ("weight_0",))
    assert torch.equal(recording.outputs[program.outputs[0].name], y)
    assert torch.equal(recording.load().run([randn(4, 32)]).outputs[0], y)


def test_a_recorded_tensor_is_freed_when_its_name_is():
    x = send(randn(32, 32), memory_config=ttnn.L1_MEMORY_CONFIG)
    with ttnn.record(inputs=[x]) as recording:
        y = ttnn.relu(ttnn.exp(x))
        ttnn.to_torch(y)
    freed = [s.uses[0].rpartition("_")[0] for s in recording.program.body if s.kernel == "ttnn.deallocate"]
    assert freed == ["exp"]
    assert recording.memory().fits


def test_what_was_fetched_and_sent_again_is_one_value():
    x = send(randn(4, 4))
    with ttnn.record(inputs=[x]) as recording:
        y = send(ttnn.to_torch(ttnn.relu(x)))
        ttnn.to_torch(ttnn.exp(y))
    assert recording.program.inputs == ("input_0",)
    assert len(recording.program.outputs) == 2


def test_without_a_fetch_the_last_result_is_the_output():
    x = send(randn(4, 4))
    with ttnn.record(inputs=[x]) as recording:
        y = ttnn.relu(x)
    assert recording.program.body[-1].kernel == "ttnn.to_torch"
    assert isinstance(recording.program.outputs[0], Ref)
    close(y, recording.load().run(list(recording.inputs.values())).outputs[0])


def test_a_write_in_place_is_a_new_value():
    x = send(randn(4, 4))
    with ttnn.record(inputs=[x]) as recording:
        ttnn.add_(x, 1.0)
        y = ttnn.to_torch(ttnn.multiply(x, x))
    again = recording.load().run(list(recording.inputs.values())).outputs[0]
    assert torch.equal(again, y)


def test_a_recording_is_read_after_its_block():
    with pytest.raises(RuntimeError, match="nothing was recorded"), ttnn.record() as recording:  # noqa: PT012
        with pytest.raises(RuntimeError, match="read its program after the `with` block"):
            _ = recording.program
        with pytest.raises(RuntimeError, match="a recording is running already"), ttnn.record():
            pass


def test_torch_tensors_made_on_the_way_are_inputs_of_their_own():
    with ttnn.record("temporaries") as recording:
        for size in (64, 256, 64, 256, 64):  # each ends before the next is made, which may get its id
            ttnn.from_torch(torch.ones(1, size).reshape(1, 1, 1, size))
    assert len(recording.inputs) == 5
