"""Which device operations one ttnn call becomes: what its time is made of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proveout.chip.device_op import DeviceOp, Work
from proveout.kernels import eltwise
from proveout.kernels.table import Specs, flat_specs
from proveout.kernels.windows import Window
from proveout.types import DRAM, HOST, L1, TILE, TensorSpec


@dataclass(frozen=True)
class Call:
    """One ttnn call, as far as its time goes."""

    specs: Specs
    operands: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    work: Work
    fidelity: str
    kernel: str = ""

    @property
    def source(self) -> TensorSpec:
        return self.operands[0]

    @property
    def out(self) -> TensorSpec:
        return self.outputs[0]


SPLIT_HEADS = "ttnn.transformer.split_query_key_value_and_split_heads"
Params = tuple[tuple[str, Any], ...]
Rule = Callable[[Call], list[DeviceOp]]


def device_ops(
    kernel: str, specs: Specs, outputs: Sequence[TensorSpec], work: Work, fidelity: str
) -> tuple[DeviceOp, ...]:
    """The device operations of one call, in order; none where nothing is left to do, as for a reshape in place."""
    if not outputs:
        return ()
    # Tensors are told apart by identity, and specs that are equal may be one object in a Program.
    specs = {name: _told_apart(value, outputs) for name, value in specs.items()}
    operands = tuple(_on_device(s) for v in specs.values() for s in flat_specs(v))
    call = Call(specs, operands, tuple(outputs), work, fidelity, kernel)
    rule = RULES.get(kernel)
    if rule is not None and operands:
        return tuple(rule(call))
    params = PARAMS[kernel](call) if kernel in PARAMS else ()
    family, code = FAMILIES.get(kernel, "other"), CODES.get(kernel, "")
    return (DeviceOp(family, operands, tuple(outputs), work, fidelity, code=code, params=params),)


def name_of(op: DeviceOp) -> str:
    """What ttnn itself calls a device operation."""
    code = op.code or NAMES.get(op.family, op.family)
    if op.family == "untilize" and op.first.dtype == "float32":
        code = "Untilize"
    return code if code in WITHOUT_SUFFIX else f"{code}DeviceOperation"


def _told_apart(value: Any, outputs: Sequence[TensorSpec]) -> Any:
    if isinstance(value, TensorSpec):
        return replace(value) if any(value is o for o in outputs) else value
    return tuple(_told_apart(v, outputs) for v in value) if isinstance(value, (tuple, list)) else value


def _on_device(spec: TensorSpec) -> TensorSpec:
    """Operands that ttnn sends over itself (weights of a convolution) are in DRAM when the kernel runs."""
    return replace(spec, memory=DRAM) if spec.memory == HOST else spec


def _matmul(call: Call) -> list[DeviceOp]:
    """Without a program config ttnn runs the activation as an operation of its own, and the bias too where a factor or
    the product lies in L1."""
    factors = tuple(call.specs[f"input_tensor_{side}"] for side in "ab")
    bias = call.specs.get("bias")
    configured = call.specs.get("program_config") is not None
    apart = bias is not None and not configured and any(t.memory.buffer == "l1" for t in (*factors, call.out))
    params = (("bias", bias.dtype),) if bias is not None and not apart else ()
    product = (replace(call.out),) if apart else call.outputs
    ops = [DeviceOp("matmul", factors, product, call.work, call.fidelity, params=params)]
    if apart:
        assert bias is not None
        ops.append(DeviceOp("binary", (*product, bias), call.outputs))
    if call.specs.get("activation"):
        ops.append(DeviceOp("unary", call.outputs, call.outputs))
    return ops


def _to_layout(call: Call) -> list[DeviceOp]:
    return _tilize(call.source, call.out)


def _tilize(source: TensorSpec, out: TensorSpec) -> list[DeviceOp]:
    """Into tiles or out of them; whole tiles need no padding."""
    if source.layout == out.layout:
        return []
    tiled = out if out.layout == "tile" else source
    ragged = tiled.padded_shape != tiled.shape
    family = ("tilize", "tilize with padding") if out.layout == "tile" else ("untilize", "untilize with unpadding")
    return [DeviceOp(family[ragged], (source,), (out,))]


def _to_memory_config(call: Call) -> list[DeviceOp]:
    if call.source.memory == call.out.memory:
        return []
    before, after = (t.memory.sharding != "interleaved" for t in (call.source, call.out))
    family = {
        (False, False): "copy",
        (False, True): "interleaved to sharded",
        (True, False): "sharded to interleaved",
        (True, True): "reshard",
    }[before, after]
    return [DeviceOp(family, (call.source,), (call.out,))]


def _reshape(call: Call) -> list[DeviceOp]:
    """A reshape that keeps rows whole, and in tile layout tiles too, only renames."""
    source, out = call.source, call.out
    whole = out.layout == "row_major" or all(t.padded_shape[-2:] == t.shape[-2:] for t in (source, out))
    if source.shape[-2:] == out.shape[-2:] or (whole and source.shape[-1:] == out.shape[-1:]):
        return []
    return [DeviceOp("reshape", (source,), (out,))]


def _pow(call: Call) -> list[DeviceOp]:
    family = "binary" if len(call.operands) > 1 else "unary"
    return [DeviceOp(family, call.operands, call.outputs, call.work, call.fidelity)]


def _permute(call: Call) -> list[DeviceOp]:
    """In tiles, a swap of two dimensions is a transpose."""
    rank = len(call.source.shape)
    dims = tuple(d % rank for d in call.specs["dims"])
    moved = [i for i, d in enumerate(dims) if d != i]
    if not moved:
        return []
    if call.source.layout == "tile" and _swaps(moved, rank) in TRANSPOSES:
        return [DeviceOp("transpose", (call.source,), call.outputs, params=(("swaps", _swaps(moved, rank)),))]
    return [DeviceOp("permute", (call.source,), call.outputs, params=(("last", dims[-1]),))]


def _transpose(call: Call) -> list[DeviceOp]:
    """Rows are moved by a permutation; in tiles there is an operation for it."""
    rank = len(call.source.shape)
    moved = sorted({call.specs["dim1"] % rank, call.specs["dim2"] % rank})
    if len(moved) < 2:
        return []
    if call.source.layout == "tile" and _swaps(moved, rank) in TRANSPOSES:
        return [DeviceOp("transpose", (call.source,), call.outputs, params=(("swaps", _swaps(moved, rank)),))]
    last = moved[0] if moved[1] == rank - 1 else rank - 1
    return [DeviceOp("permute", (call.source,), call.outputs, params=(("last", last),))]


TRANSPOSES = ("hw", "ch", "nc")
"""Pairs of dimensions that tiles are transposed along; others are permuted."""


def _swaps(moved: Sequence[int], rank: int) -> str:
    names = {rank - 1: "w", rank - 2: "h", rank - 3: "c"}
    return "".join(names.get(d, "n") for d in moved)


def _where(call: Call) -> list[DeviceOp]:
    """The predicate becomes what the values are first."""
    condition = replace(call.source, dtype=call.out.dtype)
    cast = [] if condition == call.source else [DeviceOp("unary", (call.source,), (condition,), code="Typecast")]
    chosen = (condition, *call.operands[1:])
    return [*cast, DeviceOp("binary", chosen, call.outputs, call.work, call.fidelity, code="Ternary")]


def _conv(call: Call) -> list[DeviceOp]:
    """To shards, halo, convolution, back; a 1 × 1 window over all pixels is a tilise and a matrix product, and from or
    to L1 its bias is added after that. Groups cost as much as none: ttnn fills their weights up with zeros."""
    specs, out = call.specs, call.out
    source: TensorSpec = specs["input_tensor"]
    window, stride = tuple(specs["kernel_size"]), tuple(specs.get("stride", (1, 1)))
    depth = math.prod(window) * source.shape[-1]
    weight = TensorSpec((depth, out.shape[-1]), out.dtype, "tile", DRAM)
    if window == stride == (1, 1) and not any(specs.get("padding", (0, 0))):
        tiled = replace(source, layout="tile")
        product = replace(call.work, ops=2.0 * math.prod(out.padded_shape) * tiled.padded_shape[-1])
        weight = replace(weight, dtype=_weights_dtype(specs))
        if _bias(specs) and "l1" in (tiled.memory.buffer, out.memory.buffer):
            plain, bias = replace(out, memory=DRAM), replace(weight, shape=(1, out.shape[-1]))
            matmul = DeviceOp("matmul", (tiled, weight), (plain,), product, call.fidelity)
            return [*_tilize(source, tiled), matmul, DeviceOp("binary", (plain, bias), call.outputs)]
        matmul = DeviceOp("matmul", (tiled, weight), call.outputs, product, call.fidelity, params=_bias(specs))
        return [*_tilize(source, tiled), matmul]
    dense = replace(call.work, ops=2.0 * depth * out.numel)
    slides = _window(specs, "input_height", "input_width", "in_channels", out.shape[-1])
    params = (("window", slides), ("weights", _weights_dtype(specs)), *_bias(specs))
    haloed, ops = _haloed(source, slides, params)
    made = replace(out, memory=SHARDED)
    return [
        *ops,
        DeviceOp("conv", (haloed, weight), (made,), dense, call.fidelity, params=params),
        DeviceOp("sharded to interleaved", (made,), (out,)),
    ]


def _weights_dtype(specs: Specs) -> str:
    told = re.search(r"weights_dtype=ttnn\.(\w+)", getattr(specs.get("conv_config"), "text", ""))
    asked = told.group(1) if told else ""
    return asked or str(specs["weight_tensor"].dtype)


def _bias(specs: Specs) -> Params:
    return (("bias", _weights_dtype(specs)),) if specs.get("bias_tensor") is not None else ()


def _window(specs: Specs, height: str, width: str, channels: str, out_channels: int) -> Window:
    padding = tuple(specs.get("padding", (0, 0)))
    down, across = (padding * 2)[:2] if len(padding) == 2 else (0, 0)
    return Window(
        specs["batch_size"],
        specs[height],
        specs[width],
        specs[channels],
        out_channels,
        tuple(specs["kernel_size"]),
        tuple(specs.get("stride", (1, 1))),
        (down, down, across, across) if len(padding) == 2 else padding,
        tuple(specs.get("dilation", (1, 1))),
        pools=height == "input_h",
    )


def _pool(call: Call) -> list[DeviceOp]:
    slides = _window(call.specs, "input_h", "input_w", "channels", call.source.shape[-1])
    params = (("window", slides),)
    haloed, ops = _haloed(call.source, slides, params)
    made = replace(call.out, memory=SHARDED)
    return [*ops, DeviceOp("pool", (haloed,), (made,), call.work, call.fidelity, params=params)]


def _haloed(source: TensorSpec, window: Window, params: Params) -> tuple[TensorSpec, list[DeviceOp]]:
    """The input in height shards, each with the rows of its neighbours that its windows reach into."""
    pixels = math.prod(source.shape[:-1])
    batch = max(1, pixels // max(1, window.height * window.width))
    edge = (window.size[0] - 1) * (window.width + window.size[1] - 1) * (batch + SHARDS)
    channels = -(-source.shape[-1] // 8) * 8
    held = replace(source, memory=SHARDED)
    haloed = TensorSpec((1, 1, pixels + edge, channels), "bfloat16", "row_major", SHARDED)
    halo = DeviceOp("halo", (held,), (haloed,), params=params)
    return haloed, [DeviceOp("interleaved to sharded", (source,), (held,)), halo]


def _reduce(call: Call) -> list[DeviceOp]:
    """Padding is filled first; of block floats by way of two casts."""
    source = call.source
    dim, rank = call.specs.get("dim"), len(source.shape)
    params = (("over", _over(source, dim)),)
    ops = [DeviceOp("reduce", (source,), call.outputs[:1], call.work, call.fidelity, params=params)]
    if isinstance(dim, int) and dim % rank < rank - 2:
        ops = _over_leading(call, dim % rank)
    if source.layout != "tile" or source.padded_shape[-2:] == source.shape[-2:]:
        return ops
    plain = replace(source, dtype="bfloat16") if source.dtype.endswith("_b") else source
    fill = DeviceOp("reduce", (plain,), (plain,), code="FillPad")
    if plain == source:
        return [fill, *ops]
    there, back = (DeviceOp("unary", (a,), (b,), code="Typecast") for a, b in ((source, plain), (plain, source)))
    return [there, fill, back, *ops]


def _over(source: TensorSpec, dim: Any) -> str:
    """Which way a reduction goes: along rows, columns, or over leading dimensions."""
    rank = len(source.shape)
    dims = {d % rank for d in (range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim)}
    return "w" if rank - 1 in dims else "h" if rank - 2 in dims else "n"


def _over_leading(call: Call, dim: int) -> list[DeviceOp]:
    """Over a leading dimension ttnn has a sum of its own; all else is moved to where rows are, reduced, moved back."""
    source, out, rank = call.source, call.out, len(call.source.shape)
    summed = call.kernel == "ttnn.sum" and source.dtype != "float32"
    if summed:
        params: Params = (("over", "n"), ("size", source.shape[dim]))
        ops = [DeviceOp("reduce", (source,), (out,), call.work, call.fidelity, code="FastReduceNC", params=params)]
        return [*ops, DeviceOp("slice", (out,), (out,))] if source.padded_shape != source.shape else ops
    there = [d for d in range(rank) if d != dim]
    there.insert(rank - 2, dim)
    shape = tuple(source.shape[d] for d in there)
    moved, reduced = (replace(source, shape=s) for s in (shape, (*shape[:-2], 1, shape[-1])))
    family = "transpose" if dim == rank - 3 else "permute"
    how: Params = (("swaps", "ch"),) if dim == rank - 3 else (("last", rank - 1),)
    sums = DeviceOp("reduce", (moved,), (reduced,), call.work, call.fidelity, params=(("over", "h"),))
    return [*_moved(source, moved, family, how), sums, *_moved(reduced, out, family, how)]


def _moved(source: TensorSpec, out: TensorSpec, family: str, params: Params) -> list[DeviceOp]:
    """Permutations of block floats go by way of bfloat16."""
    if family == "transpose" or not source.dtype.endswith("_b"):
        return [DeviceOp(family, (source,), (out,), params=params)]
    plain, made = (replace(t, dtype="bfloat16") for t in (source, out))
    there, back = (DeviceOp("unary", (a,), (b,), code="Typecast") for a, b in ((source, plain), (made, out)))
    return [there, DeviceOp(family, (plain,), (made,), params=params), back]


def _embedding(call: Call) -> list[DeviceOp]:
    """Whole tiles are made on the way; ragged ones by an operation of their own."""
    out = call.out
    if out.padded_shape == out.shape:
        return [DeviceOp("embedding", call.operands, (out,))]
    plain = replace(out, layout="row_major")
    return [DeviceOp("embedding", call.operands, (plain,)), *_tilize(plain, out)]


def _concat(call: Call) -> list[DeviceOp]:
    """Ragged rows are put below each other outside their tiles."""
    out, rank = call.out, len(call.out.shape)
    dim = call.specs.get("dim", 0) % rank
    params = (("dim", dim),)
    ragged = any(t.shape[-2] % TILE for t in call.operands) if rank > 1 else False
    if out.layout == "row_major" or dim != rank - 2 or not ragged:
        return [DeviceOp("concat", call.operands, call.outputs, call.work, call.fidelity, params=params)]
    plain = [replace(t, layout="row_major") for t in (*call.operands, out)]
    taken = [op for t, p in zip(call.operands, plain) for op in _tilize(t, p)]
    return [*taken, DeviceOp("concat", tuple(plain[:-1]), (plain[-1],), params=params), *_tilize(plain[-1], out)]


def _attention(call: Call) -> list[DeviceOp]:
    """A mask is scaled by an operation of its own first."""
    q, k, v = (call.specs[f"input_tensor_{x}"] for x in "qkv")
    mask = call.specs.get("attn_mask")
    params = (("causal", call.specs.get("is_causal", True)),)
    scaled = [DeviceOp("binary", (mask,), (mask,))] if mask is not None else []
    operands = (q, k, v, *([mask] if mask is not None else []))
    return [*scaled, DeviceOp("attention", operands, call.outputs, call.work, call.fidelity, params=params)]


SHARDS = 64
"""Pieces that a halo is exchanged between: about one a core."""
SHARDED = replace(L1, sharding="height")

FAMILIES: dict[str, str] = {
    **{kernel.name: "unary" for kernel in eltwise.UNARY},
    **{kernel.name: "binary" for kernel in eltwise.BINARY},
    "ttnn.layer_norm": "layer norm",
    "ttnn.rms_norm": "layer norm",
    "ttnn.softmax": "softmax",
    "ttnn.typecast": "unary",
    "ttnn.slice": "slice",
    "ttnn.cumsum": "scan",
    "ttnn.cumprod": "scan",
    "ttnn.argmax": "reduce",
    "ttnn.topk": "reduce",
    "ttnn.sort": "reduce",
    "ttnn.prod": "reduce",
    "ttnn.pad": "copy",
    "ttnn.full": "copy",
    "ttnn.expand": "copy",
    "ttnn.repeat": "copy",
    "ttnn.clone": "copy",
    "ttnn.reallocate": "copy",
    "ttnn.batch_norm": "binary",
}
"""Calls that are one device operation."""

PARAMS: dict[str, Callable[[Call], Params]] = {
    "ttnn.rms_norm": lambda call: (("rms", True),),
    "ttnn.softmax": lambda call: (("dim", call.specs.get("dim", -1)),),
    SPLIT_HEADS: lambda call: (("transposed", bool(call.specs.get("transpose_key", True))),),
}
"""What else the buffers of some depend on."""

CODES: dict[str, str] = {
    "ttnn.typecast": "Typecast",
    "ttnn.argmax": "ArgMax",
    "ttnn.topk": "TopK",
    "ttnn.sort": "Sort",
    "ttnn.batch_norm": "BatchNorm",
    "ttnn.pad": "Pad",
    SPLIT_HEADS: "NlpCreateHeads",
}
"""ttnn's names where a family has several."""

NAMES: dict[str, str] = {
    "matmul": "Matmul",
    "conv": "Conv2d",
    "halo": "Halo",
    "pool": "Pool2D",
    "unary": "Unary",
    "binary": "BinaryNg",
    "layer norm": "LayerNorm",
    "softmax": "Softmax",
    "attention": "SDPAOperation",
    "reduce": "Reduce",
    "scan": "Accumulation",
    "embedding": "Embeddings",
    "copy": "Copy",
    "reshard": "Reshard",
    "interleaved to sharded": "InterleavedToSharded",
    "sharded to interleaved": "ShardedToInterleaved",
    "tilize": "Tilize",
    "tilize with padding": "TilizeWithValPadding",
    "untilize": "UntilizeCodegen",
    "untilize with unpadding": "UntilizeWithUnpadding",
    "reshape": "ReshapeView",
    "permute": "Permute",
    "transpose": "Transpose",
    "slice": "Slice",
    "concat": "Concat",
}
"""ttnn's name for a family's usual device operation."""

WITHOUT_SUFFIX = frozenset({"Pool2D", "SDPAOperation"})

RULES: dict[str, Rule] = {
    "ttnn.matmul": _matmul,
    "ttnn.linear": _matmul,
    "ttnn.to_layout": _to_layout,
    "ttnn.to_memory_config": _to_memory_config,
    "ttnn.reshape": _reshape,
    "ttnn.to_dtype": lambda call: [],
    "ttnn.pow": _pow,
    "ttnn.permute": _permute,
    "ttnn.where": _where,
    "ttnn.transpose": _transpose,
    "ttnn.transformer.scaled_dot_product_attention": _attention,
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.sum": _reduce,
    "ttnn.mean": _reduce,
    "ttnn.max": _reduce,
    "ttnn.min": _reduce,
    "ttnn.embedding": _embedding,
    "ttnn.concat": _concat,
}
