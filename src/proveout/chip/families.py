"""The families of device operations, the form of each one's time, and how many cores share one.

A compiler's device operation names a family; some families have several forms (a typecast is a unary operation, a
product is cut one way or another), and it is forms that are fitted, judged and given intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from proveout.chip.costs import predict, scaled
from proveout.chip.device_op import DeviceOp, rows, tile_rows, tiles
from proveout.chip.forms import elementwise, layout, movement, norms, products, transformer, windows
from proveout.chip.forms.shared import Features, sharded
from proveout.types import TILE, DeviceSpec

MATMUL = "matmul"


def _pages(op: DeviceOp) -> int:
    return max(op.out.num_pages, 1)


def _tiles(op: DeviceOp) -> int:
    return tiles(op.out)


def _rows(op: DeviceOp) -> int:
    return rows(op.out)


def _tile_rows(op: DeviceOp) -> int:
    return max(tile_rows(op.out), tile_rows(op.first))


def _out_tile_rows(op: DeviceOp) -> int:
    return tile_rows(op.out)


def _in_tile_rows(op: DeviceOp) -> int:
    return tile_rows(op.first)


def _untilized(op: DeviceOp) -> int:
    """Rows of tiles; a single one is cut by its width."""
    return _tile_rows(op) if tile_rows(op.first) > 1 or sharded(op.first) else tiles(op.first)


def _looked_up(op: DeviceOp) -> int:
    return tile_rows(op.out) if op.out.layout == "tile" else rows(op.out)


def _conv_pieces(op: DeviceOp) -> int:
    """Tile rows of the output; block-sharded, tiles."""
    cut = -(-op.out.shape[-1] // TILE) if op.out.memory.sharding == "block" else 1
    return -(-rows(op.out) // TILE) * cut


@dataclass(frozen=True)
class Form:
    """One form: what of it costs, and the device operations that are it."""

    features: Callable[[DeviceOp, DeviceSpec, int], Features]
    codes: tuple[str, ...] = ()
    """Names of device operations, without `DeviceOperation`; first the one that ttnn usually runs."""
    pieces: Callable[[DeviceOp], int] = _pages
    """How many cores could share it."""
    spreads: bool = False
    """Whether ttnn always gives it all the cores it can use: a smaller count in a profile is a gap in the log."""
    stays: bool = True
    """Whether the cores that hold its shards run it."""


FORMS: dict[str, Form] = {
    MATMUL: Form(products.one_dimensional, ("Matmul", "MinimalMatmulOp", "MinimalMatmul", "SparseMatmul")),
    "conv": Form(windows.conv, ("Conv2d", "OptimizedConvNew"), _conv_pieces),
    "halo": Form(movement.halo, ("Halo",), _tile_rows),
    "pool": Form(windows.pool, ("Pool2D",), _rows),
    "unary": Form(elementwise.unary, ("Unary",), _tiles, spreads=True),
    "typecast": Form(elementwise.typecast, ("Typecast",), _tiles, spreads=True),
    "exp": Form(elementwise.exponential, (), _tiles),
    "binary": Form(elementwise.binary, ("BinaryNg", "Binary", "Ternary"), _tiles, spreads=True),
    "group norm": Form(norms.group_norm, ("GroupNorm",), _tile_rows),
    "layer norm": Form(norms.layer_norm, ("LayerNorm",), _tile_rows, spreads=True),
    "softmax": Form(norms.softmax, ("Softmax",), _tile_rows),
    "moreh softmax": Form(norms.softmax, (), _tile_rows),
    "moreh reduction": Form(norms.reduce, (), _tiles),
    "attention": Form(transformer.attention, ("SDPAOperation", "JointSDPA"), lambda op: _tile_rows(op)),
    "decode attention": Form(transformer.decode_attention, ("SdpaDecode",), lambda op: 1 << 30, stays=False),
    "reduce": Form(norms.reduce, ("Reduce", "FastReduceNC", "Prod"), _tiles, spreads=True),
    "argmax": Form(norms.argmax, ("ArgMax",), lambda op: 1 << 30),
    "top-k": Form(norms.top_k, ("TopK", "Sort"), _in_tile_rows),
    "fill pad": Form(movement.fill_pad, ("FillPad",), lambda op: tiles(op.first), spreads=True),
    "scan": Form(elementwise.engine, ("Accumulation", "IntImg"), _tiles),
    "embedding": Form(movement.lookup, ("Embeddings",), _looked_up),
    "copy": Form(movement.copied, ("Copy", "Move", "CloneOperation", "Clone", "Fill", "Full"), spreads=True),
    "pad": Form(movement.pad, ("Pad",)),
    "repeat": Form(movement.repeat, ("Repeat",), spreads=True),
    "reshard": Form(movement.copied, ("Reshard",)),
    "interleaved to sharded": Form(movement.to_sharded, ("InterleavedToSharded", "InterleavedToShardedPartial")),
    "sharded to interleaved": Form(movement.from_sharded, ("ShardedToInterleaved", "ShardedToInterleavedPartial")),
    "tilize": Form(layout.tilize, ("Tilize",), _tile_rows),
    "tilize with padding": Form(layout.tilize_padding, ("TilizeWithValPadding",), _tile_rows),
    "untilize": Form(layout.untilize, ("UntilizeCodegen", "Untilize"), _untilized),
    "untilize with unpadding": Form(layout.untilize_unpadding, ("UntilizeWithUnpadding",), _tile_rows),
    "reshape": Form(layout.reshape, ("ReshapeView", "Reshape"), spreads=True),
    "permute": Form(layout.permute, ("Permute",), spreads=True),
    "transpose": Form(layout.transpose, ("Transpose",), _tiles, spreads=True),
    "slice": Form(movement.slice_, ("Slice", "Split"), spreads=True),
    "slice write": Form(movement.slice_write, ("SliceWrite",)),
    "padded slice": Form(movement.padded_slice, ("PaddedSlice",)),
    "concat": Form(movement.concat, ("Concat",), spreads=True),
    "scatter": Form(movement.scatter, ("Scatter",), spreads=True),
    "create heads": Form(
        transformer.split_heads,
        ("NlpCreateHeads", "NlpCreateHeadsSegformer", "NlpCreateHeadsVit", "NlpCreateHeadsFalcon7B", "CreateQKVHeads"),
        _in_tile_rows,
    ),
    "concat heads": Form(transformer.split_heads, ("NLPConcatHeads", "ConcatHeads", "NlpConcatHeads"), _out_tile_rows),
    "create heads, decode": Form(
        transformer.decode_heads, ("NLPCreateQKVHeadsDecode", "NlpCreateQKVHeadsDecode"), lambda op: 32
    ),
    "concat heads, decode": Form(
        transformer.merge_heads, ("NLPConcatHeadsDecode", "NlpConcatHeadsDecode"), lambda op: 32
    ),
    "update cache": Form(
        transformer.update_cache, ("PagedUpdateCache", "PagedFusedUpdateCache", "UpdateCache"), lambda op: 32
    ),
    "fill cache": Form(
        transformer.fill_cache,
        ("PagedFillCache", "UpdateKVCacheOperation"),
        lambda op: tile_rows(op.inputs[1] if len(op.inputs) > 1 else op.first),
    ),
    "rotary": Form(
        transformer.rotary,
        ("RotaryEmbedding", "RotaryEmbeddingHf", "RotaryEmbeddingLlama", "RotaryEmbeddingLlamaFusedQk"),
        _in_tile_rows,
    ),
    "upsample": Form(elementwise.engine, ("UpsampleOperation", "Upsample")),
    "grid sample": Form(elementwise.engine, ("GridSampleOperation", "GridSample")),
    "1D decode product": Form(products.decode_1d),
    "DRAM-sharded product": Form(products.dram_sharded),
    "1D product": Form(products.one_dimensional),
    "2D product": Form(products.two_dimensional),
    "batched product": Form(products.batched),
    "minimal product": Form(products.minimal),
    "sparse product": Form(products.sparse),
    "height-sharded product": Form(products.height_sharded),
    "other": Form(elementwise.engine),
}

CODES: dict[str, str] = {code: name for name, form in FORMS.items() for code in form.codes}
"""Names of device operations to their forms."""
KIN: dict[str, str] = {
    code: form
    for form, codes in {
        MATMUL: ("AttnMatmul", "GroupAttnMatmul"),
        "conv": ("Conv2dOperation", "OptimizedConv"),
        "pool": ("MaxPool2D", "AvgPool2D", "Pool2DOp"),
        "unary": ("UnaryNg", "UnaryWithParam", "Dropout", "Quantize", "EltwiseUnary"),
        "binary": ("Where", "Bcast", "EltwiseBinary", "EltwiseBinaryBroadcast", "TernaryNg", "Addcmul"),
        "group norm": ("BatchNorm",),
        "layer norm": ("RMSNorm", "LayerNormPreAllGather", "LayerNormPostAllGather", "DitLayerNorm"),
        "softmax": ("MorehSoftmax", "ScaleMaskSoftmax", "AttentionSoftmax"),
        "attention": (
            "Sdpa", "SDPA", "ScaledDotProductAttention", "RingJointSDPA", "RingDistributedSdpa", "ChunkedSDPA",
        ),
        "decode attention": (
            "ScaledDotProductAttentionDecode", "PagedScaledDotProductAttentionDecode", "FlashMlaDecode",
        ),
        "reduce": ("MorehSum", "MorehMean", "Sum", "Mean", "Max"),
        "top-k": ("Sampling",),
        "scan": ("Cumsum", "CumSum", "CumProd", "Cumprod", "PrefixScan"),
        "embedding": ("Embedding",),
        "copy": ("Assign", "FullLike", "IndexFill", "Rand", "Uniform", "Bernoulli", "Arange"),
        "repeat": ("RepeatInterleave", "Expand"),
        "permute": ("ConvertToHWC", "ConvertToCHW", "Convert_to_hwc", "Convert_to_chw"),
        "reshape": ("Fold", "View"),
        "slice": ("NlpKVCacheLoadSlice", "StridedSlice"),
        "scatter": ("Gather",),
        "concat heads": ("NLPConcatHeadsBoltz",),
    }.items()
    for code in codes
}  # fmt: skip
"""Device operations that no table times, to the form whose work theirs is most like: uncalibrated."""


def form_of(op: DeviceOp, chip: DeviceSpec) -> str:
    """The form of one device operation: by what ttnn calls it, and for a product by how it is cut."""
    if op.family == MATMUL:
        return products.form_of(op, chip)
    if op.param("stack"):
        return "exp"
    if str(op.param("called", "")).startswith("moreh"):  # kernels of their own, slower than ttnn's usual ones
        return "moreh softmax" if op.family == "softmax" else "moreh reduction"
    return CODES.get(op.code) or KIN.get(op.code, op.family) if op.family != "conv" else "conv"


def features_of(op: DeviceOp, chip: DeviceSpec) -> Features:
    """Its features in ns."""
    cores = cores_of(op, chip)
    features = FORMS[form_of(op, chip)].features(op, chip, cores)
    return scaled({"launch": 1000.0, "core_start": float(cores), **features}, chip.clock_ghz)


def cores_of(op: DeviceOp, chip: DeviceSpec) -> int:
    """How many cores run it: as a table says, as its shards lie, or as many as it has pieces of work."""
    if op.family == MATMUL:
        if op.cores is not None:
            return max(1, op.cores)
        return products.cores_told(op, chip) or products.cores_chosen(op, chip)
    form = FORMS[form_of(op, chip)]
    chosen_cut = windows.asked_cut(op, chip) if op.family == "conv" and op.out.memory.shard is None else None
    if chosen_cut is not None:
        return math.prod(chosen_cut)
    if op.param("on_cores"):
        return max(1, min(chip.cores, op.param("on_cores")))
    for tensor in (op.out, op.first) if form.stays else ():
        if tensor.memory.shard is not None and tensor.memory.buffer == "l1" and sharded(tensor):
            return max(1, min(chip.cores, math.prod(tensor.memory.shard.grid)))
    most = max(1, min(chip.cores, form.pieces(op)))
    if op.cores is None:
        return most
    spread = form.spreads and not any(sharded(t) for t in (op.first, op.out))
    return max(op.cores, most) if spread else max(1, op.cores)


__all__ = ["CODES", "FORMS", "KIN", "Form", "cores_of", "features_of", "form_of", "predict"]
