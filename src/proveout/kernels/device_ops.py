"""Which device operations one ttnn call becomes: what its time is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proveout.chip.device_op import DeviceOp, Work
from proveout.kernels import eltwise
from proveout.kernels.table import Specs, flat_specs
from proveout.types import DRAM, HOST, L1, TensorSpec


@dataclass(frozen=True)
class Call:
    """One ttnn call, as far as its time goes."""

    specs: Specs
    operands: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    work: Work
    fidelity: str

    @property
    def source(self) -> TensorSpec:
        return self.operands[0]

    @property
    def out(self) -> TensorSpec:
        return self.outputs[0]


Rule = Callable[[Call], list[DeviceOp]]


def device_ops(
    kernel: str, specs: Specs, outputs: Sequence[TensorSpec], work: Work, fidelity: str
) -> tuple[DeviceOp, ...]:
    """The device operations of one call, in order; none where nothing is left to do, as for a reshape in place."""
    if not outputs:
        return ()
    operands = tuple(_on_device(s) for v in specs.values() for s in flat_specs(v))
    rule = RULES.get(kernel)
    if rule is not None and operands:
        return tuple(rule(Call(specs, operands, tuple(outputs), work, fidelity)))
    return (DeviceOp(FAMILIES.get(kernel, "other"), operands, tuple(outputs), work, fidelity),)


def _on_device(spec: TensorSpec) -> TensorSpec:
    """Operands that ttnn sends over itself (weights of a convolution) are in DRAM when the kernel runs."""
    return replace(spec, memory=DRAM) if spec.memory == HOST else spec


def _matmul(call: Call) -> list[DeviceOp]:
    """Without a program config ttnn runs the activation as an operation of its own."""
    factors = tuple(call.specs[f"input_tensor_{side}"] for side in "ab")
    ops = [DeviceOp("matmul", factors, call.outputs, call.work, call.fidelity)]
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
    if source.shape == out.shape or (whole and source.shape[-1:] == out.shape[-1:]):
        return []
    return [DeviceOp("reshape", (source,), (out,))]


def _pow(call: Call) -> list[DeviceOp]:
    family = "binary" if len(call.operands) > 1 else "unary"
    return [DeviceOp(family, call.operands, call.outputs, call.work, call.fidelity)]


def _permute(call: Call) -> list[DeviceOp]:
    """In tiles, a swap of two dimensions is a transpose."""
    rank = len(call.source.shape)
    moved = sum(d % rank != i for i, d in enumerate(call.specs["dims"]))
    if not moved:
        return []
    family = "transpose" if moved == 2 and call.source.layout == "tile" else "permute"
    return [DeviceOp(family, (call.source,), call.outputs)]


def _conv(call: Call) -> list[DeviceOp]:
    """To shards, halo, convolution, back; a 1 × 1 window over all pixels is a tilise and a matrix product. Groups
    cost as much as none: ttnn fills their weights up with zeros."""
    specs, out = call.specs, call.out
    source: TensorSpec = specs["input_tensor"]
    window, stride = tuple(specs["kernel_size"]), tuple(specs.get("stride", (1, 1)))
    depth = math.prod(window) * source.shape[-1]
    weight = TensorSpec((depth, out.shape[-1]), out.dtype, "tile", DRAM)
    if window == stride == (1, 1) and not any(specs.get("padding", (0, 0))):
        tiled = replace(source, layout="tile")
        product = replace(call.work, ops=2.0 * math.prod(out.padded_shape) * tiled.padded_shape[-1])
        return [*_tilize(source, tiled), DeviceOp("matmul", (tiled, weight), call.outputs, product, call.fidelity)]
    dense = replace(call.work, ops=2.0 * depth * out.numel)
    haloed, ops = _haloed(source, specs["input_height"], specs["input_width"], window)
    made = replace(out, memory=SHARDED)
    return [
        *ops,
        DeviceOp("conv", (haloed, weight), (made,), dense, call.fidelity),
        DeviceOp("sharded to interleaved", (made,), (out,)),
    ]


def _pool(call: Call) -> list[DeviceOp]:
    specs = call.specs
    haloed, ops = _haloed(call.source, specs["input_h"], specs["input_w"], tuple(specs["kernel_size"]))
    return [*ops, DeviceOp("pool", (haloed,), (replace(call.out, memory=SHARDED),), call.work, call.fidelity)]


def _haloed(source: TensorSpec, height: int, width: int, window: tuple[int, ...]) -> tuple[TensorSpec, list[DeviceOp]]:
    """The input in height shards, each with the rows of its neighbours that its windows reach into."""
    pixels = math.prod(source.shape[:-1])
    batch = max(1, pixels // max(1, height * width))
    edge = (window[0] - 1) * (width + window[-1] - 1) * (batch + SHARDS)
    channels = -(-source.shape[-1] // 8) * 8
    held = replace(source, memory=SHARDED)
    haloed = TensorSpec((1, 1, pixels + edge, channels), "bfloat16", "row_major", SHARDED)
    return haloed, [DeviceOp("interleaved to sharded", (source,), (held,)), DeviceOp("halo", (held,), (haloed,))]


def _reduce(call: Call) -> list[DeviceOp]:
    """Padding of a dimension that is reduced is filled first; of block floats by way of two casts."""
    source = call.source
    ops = [DeviceOp("reduce", (source,), call.outputs[:1], call.work, call.fidelity)]
    if not _reduces_padding(source, call.specs.get("dim")):
        return ops
    plain = replace(source, dtype="bfloat16") if source.dtype.endswith("_b") else source
    fill = DeviceOp("reduce", (plain,), (plain,))
    if plain == source:
        return [fill, *ops]
    return [DeviceOp("unary", (source,), (plain,)), fill, DeviceOp("unary", (plain,), (source,)), *ops]


def _reduces_padding(source: TensorSpec, dim: Any) -> bool:
    rank = len(source.shape)
    dims = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    return any(source.padded_shape[d % rank - rank] != source.shape[d % rank] for d in dims)


def _embedding(call: Call) -> list[DeviceOp]:
    """Whole tiles are made on the way; ragged ones by an operation of their own."""
    out = call.out
    if out.padded_shape == out.shape:
        return [DeviceOp("embedding", call.operands, (out,))]
    plain = replace(out, layout="row_major")
    return [DeviceOp("embedding", call.operands, (plain,)), *_tilize(plain, out)]


SHARDS = 64
"""Pieces that a halo is exchanged between: about one a core."""
SHARDED = replace(L1, sharding="height")

FAMILIES: dict[str, str] = {
    **{kernel.name: "unary" for kernel in eltwise.UNARY},
    **{kernel.name: "binary" for kernel in eltwise.BINARY},
    "ttnn.layer_norm": "layer norm",
    "ttnn.rms_norm": "layer norm",
    "ttnn.softmax": "softmax",
    "ttnn.transformer.scaled_dot_product_attention": "attention",
    "ttnn.typecast": "unary",
    "ttnn.transpose": "transpose",
    "ttnn.slice": "slice",
    "ttnn.concat": "concat",
    "ttnn.cumsum": "scan",
    "ttnn.cumprod": "scan",
    "ttnn.argmax": "reduce",
    "ttnn.topk": "reduce",
    "ttnn.sort": "reduce",
    "ttnn.prod": "reduce",
    "ttnn.where": "binary",
    "ttnn.pad": "copy",
    "ttnn.full": "copy",
    "ttnn.expand": "copy",
    "ttnn.repeat": "copy",
    "ttnn.clone": "copy",
    "ttnn.reallocate": "copy",
    "ttnn.batch_norm": "binary",
}
"""Calls that are one device operation."""

RULES: dict[str, Rule] = {
    "ttnn.matmul": _matmul,
    "ttnn.linear": _matmul,
    "ttnn.to_layout": _to_layout,
    "ttnn.to_memory_config": _to_memory_config,
    "ttnn.reshape": _reshape,
    "ttnn.to_dtype": lambda call: [],
    "ttnn.pow": _pow,
    "ttnn.permute": _permute,
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.sum": _reduce,
    "ttnn.mean": _reduce,
    "ttnn.max": _reduce,
    "ttnn.min": _reduce,
    "ttnn.embedding": _embedding,
}
