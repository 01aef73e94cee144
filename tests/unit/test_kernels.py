"""The kernel table against ttnn 0.81.1: signatures, defaults, refusals, and rules that agree with the meanings."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import dataclass, field
from importlib import resources

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from proveout.chip.time import Work
from proveout.kernels import table
from proveout.kernels.device_ops import device_ops
from proveout.kernels.op_codes import op_code
from proveout.kernels.row import flat_specs
from proveout.kernels.signatures import SignatureParameter, _parse, parameters, signatures
from proveout.kernels.table import call_meaning, dtype_name, infer, kernels, refusal, specs_of, torch_dtype
from proveout.program import Name, Ref, Step
from proveout.types import DRAM, HOST, L1, Memory, TensorSpec
from ttnn_binding import binding_error

quick = settings(deadline=None, max_examples=40)
SDPA = "ttnn.transformer.scaled_dot_product_attention"
SPLIT = "ttnn.transformer.split_query_key_value_and_split_heads"
ROTARY = "ttnn.experimental.rotary_embedding_hf"

BF16, F32, I32, U32 = "bfloat16", "float32", "int32", "uint32"
TILE, ROWS = Name("ttnn.TILE_LAYOUT"), Name("ttnn.ROW_MAJOR_LAYOUT")


def t(*shape, dtype=BF16, layout="tile", memory=DRAM):
    return TensorSpec(shape, dtype, layout, memory)


X = t(2, 3, 5, 7)


@dataclass(frozen=True)
class Call:
    """One call of a kernel, and the layout and memory its result has."""

    kernel: str
    attrs: dict = field(default_factory=dict)
    layout: str = "tile"
    memory: object = DRAM

    def __str__(self):
        rest = [f"{k}={v}" for k, v in self.attrs.items() if not flat_specs(v)]
        return f"{self.kernel}({', '.join([*map(str, flat_specs(tuple(self.attrs.values()))), *rest])})"


def call(kernel, *, layout="tile", memory=DRAM, **attrs):
    return Call(f"ttnn.{kernel}", attrs, layout, memory)


def unary():
    plain = (
        ("relu", "relu6", "gelu", "silu", "mish", "tanh", "sigmoid", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt"),
        ("reciprocal", "square", "neg", "abs", "sign", "floor", "ceil", "trunc", "sin", "cos", "erf", "hardswish"),
        ("hardsigmoid", "elu", "softplus", "hardtanh", "isnan", "isinf", "isfinite", "logical_not"),
        ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log2", "log10", "exp2"),
        ("erfc", "erfinv", "round"),
    )
    yield from (call(name, input_tensor=X) for names in plain for name in names)
    yield from (call(name, input_tensor=t(2, 3, dtype=I32)) for name in ("relu", "neg", "abs", "logical_not"))
    yield from (call(name, input_tensor=t(2, 3, dtype=F32, memory=L1), memory=L1) for name in ("exp", "isnan"))
    yield call("leaky_relu", input_tensor=X, negative_slope=0.1)
    yield call("elu", input_tensor=X, alpha=2.0)
    yield call("gelu", input_tensor=X, variant=Name("ttnn.GeluVariant.Tanh"))
    yield call("clamp", input_tensor=X, min=0.0, max=1.0)
    yield call("softplus", input_tensor=X, beta=2.0, threshold=10.0)
    yield call("hardtanh", input_tensor=X, min_val=-2.0, max_val=2.0)


def binary():
    arithmetic = {"add": "input_tensor_b", "subtract": "input_tensor_b", "multiply": "input_tensor_b", "div": "value"}
    limits = {"rsub": "input_b", "maximum": "input_b", "minimum": "input_b", "remainder": "input_tensor_b"}
    logic = dict.fromkeys(
        ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"), "input_tensor_b"
    )
    limits["fmod"] = "scalar"
    yield call("atan2", input_tensor_a=X, input_tensor_b=t(5, 1))
    for name, scalar in {**arithmetic, **limits, **logic}.items():
        yield call(name, input_tensor_a=X, input_tensor_b=t(5, 1))
        yield call(name, input_tensor_a=X, **{scalar: 2.0})
    for name in ("add", "subtract", "multiply", "rsub", "maximum", "minimum", *logic):
        yield call(name, input_tensor_a=t(3, dtype=I32), input_tensor_b=t(3, dtype=I32))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield call(name, input_tensor_a=t(3, dtype=I32), input_tensor_b=t(3, dtype=I32))
        yield call(name, input_tensor_a=t(3, dtype=I32), input_b=1)
    yield call("gt", input_tensor_a=X, input_tensor_b=0.0, dtype=Name("ttnn.int32"))
    yield call("subtract", input_tensor_a=1.0, input_tensor_b=X)
    yield call("pow", input_tensor=X, exponent=2.0)
    yield call("pow", input_tensor=X, exponent=t(7))
    yield call("where", predicate=t(5, 7, dtype=I32), true_value=X, false_value=t(7))
    yield call("where", predicate=X, true_value=X, false_value=0.0)


def products():
    a, b = t(2, 3, 4, 8), t(8, 5)
    yield call("matmul", input_tensor_a=a, input_tensor_b=b)
    yield call("matmul", input_tensor_a=a, input_tensor_b=t(5, 8), transpose_b=True, activation="relu")
    yield call("matmul", input_tensor_a=t(8, 4), input_tensor_b=b, transpose_a=True, dtype=Name("ttnn.float32"))
    yield call("linear", input_tensor_a=a, input_tensor_b=b, bias=t(5))
    yield call("linear", input_tensor_a=a, input_tensor_b=t(1, 1, 5, 8), transpose_b=True, activation="gelu")
    yield call("linear", input_tensor_a=a, input_tensor_b=b, memory_config=Name("ttnn.L1_MEMORY_CONFIG"), memory=L1)
    q, k = t(1, 4, 32, 64), t(1, 2, 32, 64)
    yield Call(SDPA, {"input_tensor_q": q, "input_tensor_k": k, "input_tensor_v": k})
    mask = {"attn_mask": t(1, 1, 32, 32), "is_causal": False, "scale": 0.5}
    yield Call(SDPA, {"input_tensor_q": q, "input_tensor_k": q, "input_tensor_v": q, **mask})


def movement():
    yield call("reshape", input_tensor=X, shape=(6, 35))
    yield call("reshape", input_tensor=t(2, 3, layout="row_major"), shape=(3, 2), layout="row_major")
    yield call("permute", input_tensor=X, dims=(0, 2, 3, 1))
    yield call("transpose", input_tensor=X, dim1=-2, dim2=-1)
    yield call("transformer.concatenate_heads", input_tensor=t(2, 4, 8, 32))
    yield call("experimental.nlp_concat_heads", input_tensor=t(2, 4, 8, 32))
    yield call("experimental.nlp_create_qkv_heads", input=t(2, 1, 8, 384), num_heads=4)
    yield call("experimental.nlp_create_qkv_heads", input=t(2, 1, 8, 256), num_heads=4, num_kv_heads=2)
    yield call("expand", input_tensor=t(1, 7), output_shape=(5, 7))
    yield call("repeat", input_tensor=X, repeat_dims=(1, 1, 1, 2))
    yield call("concat", tensors=(X, X), dim=-1)
    yield call("slice", input_tensor=X, slice_start=(0, 1, 0, 0), slice_end=(2, 3, 5, 7), slice_step=(1, 1, 2, 1))
    yield call("slice", input_tensor=X, slice_start=(0, 1, 0, 0), slice_end=(2, 3, 5, 7))
    yield call("pad", input_tensor=X, padding=((0, 0), (0, 0), (0, 1), (0, 2)), value=1.0)
    yield call("pad", input_tensor=t(3, layout="row_major"), padding=((2, 0),), value=0.0, layout="row_major")
    full = {"shape": (2, 3), "fill_value": 1.0, "dtype": Name("ttnn.bfloat16"), "device": Name("device")}
    yield Call("ttnn.full", {**full, "layout": TILE})
    yield Call("ttnn.full", full, "row_major")
    yield Call(SPLIT, {"input_tensor": t(2, 20, 384), "num_heads": 4})
    yield Call(SPLIT, {"input_tensor": t(1, 32, 256), "num_heads": 2, "num_kv_heads": 1, "transpose_key": False})


def rest():
    for name in ("sum", "mean", "max", "min"):
        yield call(name, input_tensor=X)
        yield call(name, input_tensor=X, dim=-1, keepdim=True)
        yield call(name, input_tensor=X, dim=(1, 2))
    yield call("sum", input_tensor=t(3, dtype=I32))
    yield call("argmax", input_tensor=t(3, 5, layout="row_major"), dim=-1, layout="row_major")
    yield call("prod", input_tensor=X, dim=1, keepdim=True)
    yield call("cumsum", input=X, dim=2)
    yield call("cumsum", input=t(3, dtype=I32), dim=0)
    yield call("cumprod", input_tensor=X, dim=2)
    yield call("topk", input_tensor=X, k=2, dim=3, largest=True, sorted=True)
    yield call("sort", input_tensor=X, dim=3, descending=True, stable=True)
    index = t(2, 3, 4, 7, dtype=U32)
    yield call("gather", input=X, dim=2, index=index)
    yield call("scatter", input=X, dim=2, index=index, src=t(2, 3, 4, 7))
    yield call("scatter_add", input=X, dim=2, index=index, src=t(2, 3, 4, 7))
    yield call("softmax", input_tensor=X, dim=-1)
    yield call("scale_mask_softmax", input_tensor=t(2, 4, 32, 64), scale=0.5, mask=t(2, 1, 1, 64))
    yield call("layer_norm", input_tensor=X, epsilon=1e-5, weight=t(7), bias=t(7))
    yield call("layer_norm", input_tensor=X)
    yield call("rms_norm", input_tensor=X, weight=t(1, 7))
    table = t(1, 1, 20, 64)
    yield Call(ROTARY, {"input_tensor": t(1, 4, 20, 64), "cos_cache": table, "sin_cache": table})
    channel = t(1, 3, 1, 1)
    yield call("batch_norm", input=X, running_mean=channel, running_var=channel, weight=channel, bias=channel)
    image = {"in_channels": 4, "out_channels": 6, "batch_size": 2, "input_height": 8, "input_width": 8}
    weight = t(6, 4, 3, 3, layout="row_major", memory=HOST)
    flat = {"input_tensor": t(1, 1, 128, 4), "weight_tensor": weight, "device": Name("device"), **image}
    yield Call("ttnn.conv2d", {**flat, "kernel_size": (3, 3)})
    bias = t(1, 1, 1, 6, layout="row_major", memory=HOST)
    yield Call(
        "ttnn.conv2d", {**flat, "kernel_size": (3, 3), "padding": (1, 1, 0, 2), "stride": (2, 2), "bias_tensor": bias}
    )
    grouped = {
        **flat,
        "weight_tensor": t(6, 2, 1, 1, layout="row_major", memory=HOST),
        "kernel_size": (1, 1),
        "groups": 2,
    }
    yield Call("ttnn.conv2d", {**grouped, "dtype": Name("ttnn.float32")})
    up = {**flat, "weight_tensor": t(4, 6, 3, 3, layout="row_major", memory=HOST), "kernel_size": (3, 3)}
    yield Call("ttnn.conv_transpose2d", {**up, "stride": (2, 2), "output_padding": (1, 1), "bias_tensor": bias})
    window = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    pool = {
        "input_tensor": t(1, 1, 128, 4, layout="row_major"),
        "batch_size": 2,
        "input_h": 8,
        "input_w": 8,
        "channels": 4,
    }
    yield Call("ttnn.max_pool2d", {**pool, **window, "dilation": (1, 1)}, "row_major", L1)
    yield Call("ttnn.avg_pool2d", {**pool, **window, "count_include_pad": False}, "row_major", L1)
    lookup = {"input_tensor": t(2, 3, dtype=U32, layout="row_major"), "weight": t(9, 4, layout="row_major")}
    yield Call("ttnn.embedding", lookup, "row_major")
    yield Call("ttnn.embedding", {**lookup, "layout": TILE})


def transfers():
    host = TensorSpec((3, 5), F32)
    bfloat16 = Name("ttnn.bfloat16")
    yield Call("ttnn.from_torch", {"tensor": host, "dtype": bfloat16, "layout": TILE, "device": Name("device")})
    yield Call("ttnn.from_torch", {"tensor": host, "layout": ROWS}, "row_major", HOST)
    yield Call("ttnn.to_torch", {"tensor": X, "dtype": Name("torch.float32")}, "row_major", HOST)
    yield Call("ttnn.to_layout", {"tensor": X, "layout": ROWS}, "row_major")
    yield Call("ttnn.to_layout", {"tensor": t(3, layout="row_major"), "layout": TILE, "dtype": bfloat16})
    yield Call("ttnn.from_device", {"tensor": X}, memory=HOST)
    yield Call("ttnn.to_device", {"tensor": t(3, 5, memory=HOST), "device": Name("device")})
    to_l1 = {"device": Name("device"), "memory_config": Name("ttnn.L1_MEMORY_CONFIG")}
    yield Call("ttnn.to_device", {"tensor": t(3, 5, memory=HOST), **to_l1}, memory=L1)
    yield Call("ttnn.to_memory_config", {"tensor": X, "memory_config": Name("ttnn.L1_MEMORY_CONFIG")}, memory=L1)
    yield Call("ttnn.typecast", {"input_tensor": X, "dtype": Name("ttnn.int32")})
    yield call("all_gather", input_tensor=X, dim=3)
    yield call("get_device_tensors", tensor=X)
    yield Call("ttnn.clone", {"input": X, "dtype": Name("ttnn.float32")})
    yield Call("ttnn.clone", {"input": X, "memory_config": Name("ttnn.L1_MEMORY_CONFIG")}, memory=L1)
    yield Call("ttnn.reallocate", {"tensor": X})
    host = t(2, 3, layout="row_major", memory=HOST)
    yield Call("ttnn.to_dtype", {"tensor": host, "dtype": Name("ttnn.float32")}, "row_major", HOST)


def by_hand():
    """Kernels that hand-written models call and our compiler does not."""
    image = t(2, 4, 6, 32, layout="row_major")
    yield call("upsample", input_tensor=image, scale_factor=2, layout="row_major")
    yield call("upsample", input_tensor=image, scale_factor=(2, 3), mode="nearest", layout="row_major")
    yield call("global_avg_pool2d", input_tensor=t(2, 4, 6, 32))
    yield call("group_norm", input_tensor=t(1, 1, 64, 64), num_groups=8, inplace=False)
    heads, cache = t(1, 4, 8, 64), t(4, 2, 64, 64)
    fused = {"input_tensor": t(1, 1, 4, 768), "num_heads": 8, "num_kv_heads": 2}
    yield call("experimental.nlp_create_qkv_heads_decode", **fused, memory=Memory("l1", "height"))
    yield call("experimental.nlp_concat_heads_decode", input_tensor=heads, num_heads=8, memory=L1)
    yield call(
        "experimental.rotary_embedding_llama", input_tensor=heads, cos_cache=t(1, 4, 1, 64), sin_cache=t(1, 4, 1, 64),
        trans_mat=t(1, 1, 32, 32), is_decode_mode=True,
    )  # fmt: skip
    at = (5, 5, 5, 5)
    new = t(1, 4, 2, 64)
    yield call("experimental.paged_update_cache", cache_tensor=cache, input_tensor=new, update_idxs=at)
    attend = "transformer.scaled_dot_product_attention_decode"
    yield call(attend, input_tensor_q=heads, input_tensor_k=cache, input_tensor_v=cache, cur_pos=at)
    table, places = t(4, 3, dtype=I32, layout="row_major"), t(4, dtype=I32, layout="row_major")
    paged = {"update_idxs_tensor": places, "page_table": table}
    yield call("experimental.paged_update_cache", cache_tensor=cache, input_tensor=new, **paged)
    prompt = t(1, 2, 96, 64)
    fill = {"cache_tensor": cache, "input_tensor": prompt, "page_table": table, "batch_idx": 1}
    yield call("experimental.paged_fill_cache", **fill)
    yield call("fill_cache", cache_tensor=cache, input_tensor=t(1, 2, 32, 64), batch_idx=1)
    attend = {"input_tensor_q": heads, "input_tensor_k": cache, "input_tensor_v": cache}
    attend |= {"page_table_tensor": table, "cur_pos_tensor": places}
    yield call("transformer.paged_scaled_dot_product_attention_decode", **attend)


CALLS = [*unary(), *binary(), *products(), *movement(), *rest(), *by_hand(), *transfers()]
each_call = pytest.mark.parametrize("sample", CALLS, ids=str)


def specs_and_step(sample):
    specs = {}

    def enter(value):
        if isinstance(value, TensorSpec):
            specs[f"v{len(specs)}"] = value
            return Ref(f"v{len(specs) - 1}")
        return tuple(map(enter, value)) if isinstance(value, tuple) else value

    attrs = tuple((k, enter(v)) for k, v in sample.attrs.items())
    return specs, Step(sample.kernel, attrs, ())


def tensors(value):
    """Numbers for specs: small ones, positive where a table is looked up in."""
    if isinstance(value, TensorSpec):
        dtype = torch_dtype(value.dtype)
        return torch.rand(value.shape).to(dtype) if dtype.is_floating_point else torch.ones(value.shape).to(dtype)
    return tuple(map(tensors, value)) if isinstance(value, tuple) else value


def test_every_row_is_called_below():
    assert {c.kernel for c in CALLS} | {"ttnn.deallocate"} == set(kernels())


@each_call
def test_a_call_binds_to_ttnns_signature(sample):
    attributes = {k: bool(flat_specs(v)) for k, v in sample.attrs.items()}
    assert binding_error(sample.kernel, attributes) is None


@each_call
def test_ttnn_does_not_refuse_the_call(sample):
    assert refusal(kernels()[sample.kernel], sample.attrs) is None


@each_call
def test_the_rule_gives_what_the_meaning_gives(sample):
    specs, step = specs_and_step(sample)
    made = call_meaning(kernels()[sample.kernel], {k: tensors(v) for k, v in sample.attrs.items()})
    made = made if isinstance(made, tuple) else (made,)
    wanted = [TensorSpec(tuple(m.shape), dtype_name(m.dtype), sample.layout, sample.memory) for m in made]
    assert list(infer(step, specs)) == wanted


HAND_MOVES = {
    "ttnn.upsample",
    "ttnn.fill_cache",
    *(
        f"ttnn.experimental.{n}"
        for n in (
            *("nlp_create_qkv_heads_decode", "nlp_concat_heads_decode"),
            *("paged_update_cache", "paged_fill_cache"),
        )
    ),
}
MOVES = {c.kernel for c in (*movement(), *transfers())} | HAND_MOVES | {"ttnn.embedding"}


@each_call
def test_every_call_has_a_cost_and_only_arithmetic_has_work(sample):
    specs, step = specs_and_step(sample)
    work = kernels()[sample.kernel].work(sample.attrs, infer(step, specs))
    assert isinstance(work, Work)
    assert 0 <= work.ops < 1e9
    assert (work.ops > 0) == (sample.kernel not in MOVES)


def test_on_a_torch_target_results_are_plain():
    step = Step("ttnn.relu", (("input_tensor", Ref("x")),), ())
    assert infer(step, {"x": TensorSpec((2, 3), "float16")}, "torch") == (TensorSpec((2, 3), "float16"),)


def test_deallocate_gives_nothing():
    assert infer(Step("ttnn.deallocate", (("tensor", Ref("x")),), ()), {"x": X}) == ()


@quick
@given(st.lists(st.integers(1, 70), min_size=1, max_size=4).map(tuple), st.sampled_from([DRAM, L1]))
def test_a_result_stays_where_its_first_operand_is(shape, memory):
    spec = TensorSpec(shape, BF16, "tile", memory)
    step = Step("ttnn.add", (("input_tensor_a", Ref("x")), ("input_tensor_b", Ref("y"))), ())
    assert infer(step, {"x": spec, "y": TensorSpec(shape, BF16, "tile", DRAM)}) == (spec,)


FACTS = [
    # Calls that the real ttnn 0.81.1 built on its mock n150: the results' shape, dtype, layout and buffer.
    (call("add", input_tensor_a=t(1, 12, 128, 128), input_tensor_b=t(1, 1, 1, 128)), t(1, 12, 128, 128)),
    (call("sigmoid", input_tensor=t(1, 12, 128, 128, dtype=F32, memory=L1)), t(1, 12, 128, 128, dtype=F32, memory=L1)),
    (call("transpose", input_tensor=t(2, 1, 100, 300, memory=L1), dim1=-2, dim2=-1), t(2, 1, 300, 100, memory=L1)),
    (call("max", input_tensor=t(1, 1, 32, 32), dim=-1, keepdim=True), t(1, 1, 32, 1)),
    (call("mean", input_tensor=t(2, 1, 100, 300, memory=L1), dim=-1, keepdim=True), t(2, 1, 100, 1, memory=L1)),
    (call("layer_norm", input_tensor=t(1, 1, 1, 1000, dtype=F32, memory=L1)), t(1, 1, 1, 1000, dtype=F32, memory=L1)),
    (call("softmax", input_tensor=t(2, 1, 100, 300), dim=-1), t(2, 1, 100, 300)),
    (call("to_layout", tensor=t(1, 256, 14, 14), layout=ROWS), t(1, 256, 14, 14, layout="row_major")),
    (call("concat", tensors=(t(1, 12, 128, 128),) * 2, dim=-1), t(1, 12, 128, 256)),
    (call("permute", input_tensor=t(1, 1, 384, 1024), dims=(0, 1, 3, 2)), t(1, 1, 1024, 384)),
    (call("reshape", input_tensor=t(1, 1, 7, 5), shape=(1, 1, 1, 35)), t(1, 1, 1, 35)),
    (
        call("argmax", input_tensor=t(8, 12, 197, 197, layout="row_major"), dim=-1),
        t(8, 12, 197, dtype=U32, layout="row_major"),
    ),
]


@pytest.mark.parametrize(("sample", "wanted"), FACTS, ids=[str(c) for c, _ in FACTS])
def test_the_rule_gives_what_the_real_ttnn_gave(sample, wanted):
    attrs = dict(sample.attrs)
    if sample.kernel == "ttnn.to_layout":
        attrs["layout"] = ROWS
    specs, step = specs_and_step(Call(sample.kernel, attrs))
    assert infer(step, specs) == (wanted,)


# ---- refusals ----------------------------------------------------------------------------------------------------


def attention(q=(1, 2, 32, 64), k=None, v=None, dtype=BF16, **rest):
    shapes = {"q": q, "k": k or q, "v": v or k or q}
    return SDPA, {f"input_tensor_{n}": t(*s, dtype=dtype) for n, s in shapes.items()} | rest


def rotary(shape, table=None, dtype=BF16):
    table = t(*(table or (1, 1, *shape[2:])), dtype=dtype)
    return ROTARY, {"input_tensor": t(*shape), "cos_cache": table, "sin_cache": table}


def masked(mask, shape=(2, 4, 64, 64)):
    return "ttnn.scale_mask_softmax", {"input_tensor": t(*shape), "scale": 0.5, "mask": t(*mask)}


POOL = {"batch_size": 1, "input_h": 4, "input_w": 4, "channels": 4, "kernel_size": (2, 2), "stride": (2, 2)}
POOL |= {"padding": (0, 0)}

REFUSED = {
    "attention with a head size of 80": (attention((1, 2, 32, 80)), "a head size that is a multiple of 32, not 80"),
    "attention in three dimensions": (attention((2, 32, 64)), "takes 4 dimensions, not 3"),
    "attention with two head sizes": (attention(v=(1, 2, 32, 32)), "one head size for queries and values"),
    "causal attention on other keys": (attention(k=(1, 2, 64, 64)), "as many queries as keys"),
    "a mask for one row of queries": (
        attention(attn_mask=t(1, 1, 1, 32), is_causal=False),
        "a mask of the full (queries, keys) shape",
    ),
    "a mask where causal is the default": (attention(attn_mask=t(1, 1, 32, 32)), "causal or takes a mask, not both"),
    "a mask in L1": (attention(attn_mask=t(1, 1, 32, 32, memory=L1), is_causal=False), "DRAM"),
    "a mask for two of four heads": (
        attention((1, 4, 32, 64), attn_mask=t(1, 2, 32, 32), is_causal=False),
        "for one or every head",
    ),
    "attention on keys of another batch": (attention(q=(2, 2, 32, 64), k=(1, 2, 32, 64)), "one batch size"),
    "attention with three heads of keys for four": (attention((1, 4, 32, 64), k=(1, 3, 32, 64)), "whole groups"),
    "attention with more values than keys": (attention(v=(1, 2, 64, 64)), "as many values as keys"),
    "heads of 24": ((SPLIT, {"input_tensor": t(2, 32, 288), "num_heads": 4}), "not of 24"),
    "heads of four dimensions": ((SPLIT, {"input_tensor": t(2, 1, 32, 384), "num_heads": 4}), "3 dimensions, not 4"),
    "a rotary head size of 96": (rotary((1, 4, 32, 96)), "32 or a multiple of 64, not 96"),
    "rotary tables a batch": (rotary((1, 4, 32, 64), table=(2, 1, 32, 64)), "one table for all heads"),
    "rotary tables of another dtype": (rotary((1, 4, 32, 64), dtype=F32), "the operand's dtype"),
    "rotary of two batches": (rotary((2, 4, 32, 64)), r"takes [1, heads, length, head size]"),
    "a softmax mask for all batches": (masked((1, 1, 1, 64)), "one row a batch"),
    "a softmax mask for each query": (masked((2, 1, 64, 64)), "one row a batch"),
    "a softmax mask of three dimensions": (masked((2, 1, 64)), "takes 4 dimensions"),
    "a masked softmax of part of a tile": (masked((2, 1, 1, 50), (2, 4, 64, 50)), "whole tiles, not 50"),
    "a softmax scale without a mask": (
        ("ttnn.scale_mask_softmax", {"input_tensor": t(2, 4, 64, 64), "scale": 0.5}),
        "no scale without a mask",
    ),
    "attention in float32": (attention(dtype=F32), "or bfloat8_b, not float32"),
    "a table in float32": (
        ("ttnn.embedding", {"input_tensor": t(3, dtype=U32), "weight": t(9, 4, dtype=F32)}),
        "takes a bfloat16 table, not float32",
    ),
    "signed indices": (
        ("ttnn.embedding", {"input_tensor": t(3, dtype=I32), "weight": t(9, 4)}),
        "takes uint32 indices, not int32",
    ),
    "padding at the front of a tile": (
        ("ttnn.pad", {"input_tensor": X, "padding": ((0, 0), (0, 0), (0, 0), (1, 0)), "value": 0.0}),
        "does not pad at the front",
    ),
    "max pooling in float32": (
        ("ttnn.max_pool2d", {"input_tensor": t(1, 1, 16, 4, dtype=F32, layout="row_major"), **POOL}),
        "ttnn.max_pool2d takes bfloat16, not float32",
    ),
    "average pooling in float32": (
        ("ttnn.avg_pool2d", {"input_tensor": t(1, 1, 16, 4, dtype=F32, layout="row_major"), **POOL}),
        "ttnn.avg_pool2d takes bfloat16, not float32",
    ),
    "where with two dtypes": (
        ("ttnn.where", {"predicate": X, "true_value": X, "false_value": t(7, dtype=F32)}),
        "takes two values of one dtype",
    ),
    "batch norm of a sequence": (
        ("ttnn.batch_norm", {"input": t(2, 3, 5), "running_mean": t(3), "running_var": t(3)}),
        "takes 4 dimensions, not 3",
    ),
    "a product of integers": (
        ("ttnn.matmul", {"input_tensor_a": t(3, 3, dtype=I32), "input_tensor_b": t(3, 3, dtype=I32)}),
        "ttnn.matmul takes .*not int32",
    ),
    "a quotient of integers": (("ttnn.div", {"input_tensor_a": t(3, dtype=I32), "value": 2}), "not int32"),
    "bits of floats": (("ttnn.bitwise_or", {"input_tensor_a": X, "input_b": 1}), "takes int32 or uint32, not bfloat16"),
    "the negative of an unsigned number": (("ttnn.neg", {"input_tensor": t(3, dtype=U32)}), "not uint32"),
    "the exponential of integers": (("ttnn.exp", {"input_tensor": t(3, dtype=I32)}), "not int32"),
    "one wrong tensor of a list": (("ttnn.softmax", {"input_tensor": (X, t(3, dtype=I32))}), "not int32"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_ttnn_refuses(what):
    (kernel, attrs), words = REFUSED[what]
    reason = refusal(kernels()[kernel], attrs)
    assert reason is not None
    assert words in str(reason) or re.search(words, str(reason))


@pytest.mark.parametrize(
    ("kernel", "attrs"),
    [
        attention((1, 2, 32, 96)),
        attention((1, 2, 31, 32)),
        attention(k=(1, 2, 64, 64), is_causal=False),
        attention(attn_mask=t(1, 1, 32, 32), is_causal=False),
        attention(attn_mask=t(1, 2, 32, 32), is_causal=False),
        ("ttnn.pad", {"input_tensor": X, "padding": ((0, 0), (0, 0), (0, 9), (0, 9)), "value": 0.0}),
        ("ttnn.pad", {"input_tensor": t(3, layout="row_major"), "padding": ((1, 1),), "value": 0.0}),
        ("ttnn.where", {"predicate": t(7, dtype=I32), "true_value": X, "false_value": X}),
        ("ttnn.where", {"predicate": X, "true_value": t(7, dtype=F32), "false_value": 0.0}),
        ("ttnn.embedding", {"input_tensor": t(3, dtype=U32), "weight": t(9, 4)}),
    ],
)
def test_ttnn_takes_what_is_close_to_a_refusal(kernel, attrs):
    assert refusal(kernels()[kernel], attrs) is None


# ---- meanings ----------------------------------------------------------------------------------------------------


def raw_signatures():
    text = resources.files("proveout.kernels").joinpath("ttnn_api.json").read_text()
    return json.loads(text)["signatures"]


def defaults_of(signature):
    """Default values in a signature's text that Python can read: numbers, booleans, None, lists."""
    found = {}
    for name, text in re.findall(r"(\w+): [^=,()]*(?:\[[^=()]*\])?[^=,()]* = ([^,()\[]+|\[[^\]]*\])", signature):
        try:
            found[name] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            continue
    return found


def cases_of_defaults():
    for name, kernel in kernels().items():
        ours = {
            p.name: p.default
            for p in inspect.signature(kernel.meaning).parameters.values()
            if p.default is not inspect.Parameter.empty and p.name != "layout"
        }
        theirs = [defaults_of(s) for s in raw_signatures()[name]]
        for parameter, default in ours.items():
            known = [d[parameter] for d in theirs if parameter in d]
            if known:
                yield pytest.param(default, known, id=f"{name}.{parameter}")


@pytest.mark.parametrize(("ours", "theirs"), list(cases_of_defaults()))
def test_a_meaning_has_ttnns_default(ours, theirs):
    plain = list(ours) if isinstance(ours, tuple) else ours
    assert plain in theirs


def test_defaults_were_found_in_the_signatures():
    cases = {c.id for c in cases_of_defaults()}
    assert {f"{SDPA}.is_causal", "ttnn.layer_norm.epsilon", "ttnn.batch_norm.eps", "ttnn.sum.keepdim"} <= cases
    assert len(cases) > 30


def test_attention_is_causal_by_default():
    q = torch.randn(1, 2, 8, 32)
    meaning = kernels()[SDPA].meaning
    torch.testing.assert_close(meaning(q, q, q), F.scaled_dot_product_attention(q, q, q, is_causal=True))
    torch.testing.assert_close(meaning(q, q, q, is_causal=False), F.scaled_dot_product_attention(q, q, q))


def test_norms_use_the_tiny_epsilon_of_ttnn_by_default():
    x = torch.tensor([[1e-4, -1e-4]])
    assert kernels()["ttnn.layer_norm"].meaning(x).abs().min() > 0.99
    assert kernels()["ttnn.layer_norm"].meaning(x, epsilon=1e-5).abs().max() < 0.1
    assert kernels()["ttnn.rms_norm"].meaning(x).abs().min() > 0.99


@pytest.mark.parametrize(
    ("kernel", "attrs", "wanted"),
    [
        ("elu", {}, lambda x: F.elu(x, 1.0)),
        ("softplus", {}, lambda x: F.softplus(x, 1.0, 20.0)),
        ("hardtanh", {}, lambda x: x.clamp(-1, 1)),
        ("gelu", {}, lambda x: F.gelu(x, approximate="none")),
        ("softmax", {}, lambda x: torch.softmax(x, -1)),
        ("sum", {}, lambda x: x.sum()),
        ("relu6", {}, lambda x: x.clamp(0, 6)),
        ("typecast", {"dtype": Name("ttnn.int32")}, lambda x: x.trunc().int()),
    ],
)
def test_what_is_not_said_is_what_ttnn_assumes(kernel, attrs, wanted):
    x = torch.linspace(-30, 30, 61).view(1, 61)
    torch.testing.assert_close(call_meaning(kernels()[f"ttnn.{kernel}"], {"input_tensor": x, **attrs}), wanted(x))


def test_comparisons_and_predicates_give_0_and_1_in_the_operands_dtype():
    x = torch.tensor([0.0, float("nan"), float("inf")]).bfloat16()
    for name, wanted in (
        ("isnan", [0, 1, 0]),
        ("isinf", [0, 0, 1]),
        ("isfinite", [1, 0, 0]),
        ("logical_not", [1, 0, 0]),
    ):
        found = kernels()[f"ttnn.{name}"].meaning(input_tensor=x)
        assert found.dtype == torch.bfloat16
        assert found.tolist() == wanted
    found = kernels()["ttnn.eq"].meaning(input_tensor_a=x, input_tensor_b=0.0)
    assert (found.dtype, found.tolist()) == (torch.bfloat16, [1, 0, 0])


@pytest.mark.parametrize("numbers", [(1.0, 0.0), (1, 0)], ids=["floats", "integers"])
def test_where_of_two_numbers_has_the_predicates_dtype(numbers):
    attrs = (("predicate", Ref("x")), ("true_value", numbers[0]), ("false_value", numbers[1]))
    (found,) = infer(Step("ttnn.where", attrs, ()), {"x": X})
    assert found == X
    made = kernels()["ttnn.where"].meaning(torch.tensor([2.0, 0.0]).bfloat16(), *numbers)
    assert (made.dtype, made.tolist()) == (torch.bfloat16, [1, 0])


# ---- the table and its signatures --------------------------------------------------------------------------------


def test_two_rows_for_one_kernel_are_an_error(monkeypatch):
    monkeypatch.setattr(table, "FAMILIES", ("matmul", "norm", "matmul"))
    with pytest.raises(AssertionError, match=r"two rows for ttnn\.matmul"):
        kernels.__wrapped__()


def test_our_copy_of_the_signatures_is_of_the_kernels_we_have():
    assert set(signatures()) >= set(kernels())
    assert all(signatures()[name] for name in kernels())


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "missing ['input_tensor']"),
        ({"input_tensor": False}, "of another kind ['input_tensor']"),
        ({"input_tensor": True, "inplace": False}, "unknown ['inplace']"),
    ],
)
def test_a_call_that_binds_to_no_overload_is_told_why(attributes, words):
    assert words in binding_error("ttnn.relu", attributes)


def test_any_overload_may_take_the_call():
    assert binding_error("ttnn.div", {"input_tensor_a": True, "value": False}) is None
    assert binding_error("ttnn.div", {"input_tensor_a": True, "input_tensor_b": True}) is None
    assert binding_error("ttnn.div", {"input_tensor_a": True, "value": True}) is not None
    assert "no signature in our copy" in binding_error("ttnn.fft", {})


def test_the_parameters_of_all_overloads_are_known_together():
    assert {"input_tensor_a", "input_tensor_b", "value", "memory_config"} <= parameters("ttnn.div")


@pytest.mark.parametrize(
    ("signature", "wanted"),
    [
        ("() -> None", []),
        ("f(x: Tensor) -> Tensor", [SignatureParameter("x", "Tensor", True)]),
        (
            "(x: Tensor, /, y: int) -> T",
            [SignatureParameter("x", "Tensor", True), SignatureParameter("y", "int", True)],
        ),
        ("(x, *, y=1)", [SignatureParameter("x", "", True), SignatureParameter("y", "", False, True)]),
        (
            "(a: Sequence[int] = [1, 2], b: dict[str, int] | None = None)",
            [SignatureParameter("a", "Sequence[int]", False), SignatureParameter("b", "dict[str, int] | None", False)],
        ),
        (
            "(a: Callable[[int, int], int], *, b: tuple = (1, (2, 3)), c: Mode = Mode.Fast)",
            [
                SignatureParameter("a", "Callable[[int, int], int]", True),
                SignatureParameter("b", "tuple", False, True),
                SignatureParameter("c", "Mode", False, True),
            ],
        ),
        (
            "(self: A.B, x: int) -> tuple[int, int]",
            [SignatureParameter("self", "A.B", True), SignatureParameter("x", "int", True)],
        ),
    ],
)
def test_odd_signatures_are_read(signature, wanted):
    assert list(_parse(signature)) == wanted


@pytest.mark.parametrize(
    ("annotation", "takes_tensor", "takes_other"),
    [
        ("Tensor", True, False),
        ("torch.Tensor", True, False),
        ("Tensor | None", True, True),
        ("collections.abc.Sequence[Tensor]", True, True),
        ("int | float", False, True),
        ("MemoryConfig | None", False, True),
    ],
)
def test_an_annotation_says_whether_it_takes_a_tensor(annotation, takes_tensor, takes_other):
    parameter = SignatureParameter("x", annotation, True)
    assert (parameter.may_take(True), parameter.may_take(False)) == (takes_tensor, takes_other)


# ---- op codes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "attrs", "code"),
    [
        ("ttnn.clone", {"input": Ref("x")}, "CloneOperation"),
        ("ttnn.reallocate", {"tensor": Ref("x")}, "MoveDeviceOperation"),
        ("ttnn.expand", {"input_tensor": Ref("x"), "output_shape": (4, 32, 64)}, "RepeatDeviceOperation"),
        ("ttnn.full", {"shape": (32, 64), "fill_value": 1.0}, "FullDeviceOperation"),
        ("ttnn.prod", {"input_tensor": Ref("x")}, "ProdAllDeviceOperation"),
        ("ttnn.prod", {"input_tensor": Ref("x"), "dim": 0}, "ProdNcDeviceOperation"),
        ("ttnn.transformer.concatenate_heads", {"input_tensor": Ref("heads")}, "NLPConcatHeadsDeviceOperation"),
        ("ttnn.experimental.nlp_concat_heads", {"input_tensor": Ref("heads")}, "NLPConcatHeadsDeviceOperation"),
        (
            "ttnn.experimental.rotary_embedding_hf",
            {"input_tensor": Ref("heads"), "cos_cache": Ref("table"), "sin_cache": Ref("table")},
            "RotaryEmbeddingHfDeviceOperation",
        ),
        ("ttnn.gather", {"input": Ref("x"), "dim": 0, "index": Ref("index")}, "GatherDeviceOperation"),
        ("ttnn.scale_mask_softmax", {"input_tensor": Ref("x")}, "SoftmaxDeviceOperation"),
        ("ttnn.all_gather", {"input_tensor": Ref("x"), "dim": 0}, "AllGatherDeviceOperation"),
        (
            "ttnn.batch_norm",
            {"input": Ref("heads"), "running_mean": Ref("m"), "running_var": Ref("m")},
            "BatchNormOperation",
        ),
    ],
)
def test_calls_that_the_mock_runtime_was_not_asked_have_tt_metals_op_codes(kernel, attrs, code):
    """As the classes of its device operations are called."""
    specs = {"x": t(32, 64), "heads": t(1, 4, 32, 64), "table": t(1, 1, 32, 64), "index": t(32, 64, dtype="uint32")}
    specs["m"] = t(1, 4, 1, 1)
    step = Step(kernel, tuple(attrs.items()), ("out",))
    (out,) = infer(step, specs)
    found = device_ops(kernels()[kernel], specs_of(step, specs), (out,), Work(), "HiFi2")
    assert [op_code(op) for op in found] == [code]
