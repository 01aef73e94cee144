"""What tt-metal's profiler calls each device operation: the class that runs it."""

from __future__ import annotations

from proveout.chip.device_op import DeviceOp
from proveout.chip.families import FORMS

SUFFIX = "DeviceOperation"

OF_KERNEL: dict[tuple[str, str], str] = {
    ("ttnn.typecast", "unary"): "Typecast",
    ("ttnn.where", "binary"): "Ternary",
    ("ttnn.batch_norm", "binary"): "BatchNorm",
    ("ttnn.argmax", "reduce"): "ArgMax",
    ("ttnn.topk", "reduce"): "TopK",
    ("ttnn.sort", "reduce"): "Sort",
    ("ttnn.prod", "reduce"): "Prod",
    ("ttnn.pad", "copy"): "Pad",
    ("ttnn.full", "copy"): "Full",
    ("ttnn.expand", "copy"): "Repeat",
    ("ttnn.repeat", "copy"): "Repeat",
    ("ttnn.scale_mask_softmax", "other"): "Softmax",
    ("ttnn.transformer.split_query_key_value_and_split_heads", "other"): "NlpCreateHeads",
    ("ttnn.experimental.rotary_embedding_hf", "other"): "RotaryEmbedding",
    ("ttnn.all_gather", "other"): "AllGather",
    ("ttnn.gather", "other"): "Gather",
    ("ttnn.scatter", "other"): "Scatter",
    ("ttnn.scatter_add", "other"): "Scatter",
}
"""(ttnn call, family): calls whose operation is not their family's usual one."""

OF_FAMILY = {
    "binary": "BinaryNg",
    "copy": "Copy",
    "reshape": "ReshapeView",
    "attention": "SDPAOperation",
    "pool": "Pool2D",
    "upsample": "UpsampleOperation",
    "grid sample": "GridSampleOperation",
}
"""Families whose usual operation is not the first of their codes."""
WHOLE = ("SDPAOperation", "Pool2D", "UpsampleOperation", "GridSampleOperation", "UpdateKVCacheOperation")
"""Operations whose class is not called `…DeviceOperation`."""


def op_code(kernel: str, op: DeviceOp) -> str:
    """The OP CODE of one device operation of a ttnn call."""
    code = OF_KERNEL.get((kernel, op.family)) or OF_FAMILY.get(op.family) or FORMS[op.family].codes[0]
    if op.family == "reduce" and op.inputs == op.outputs and not op.work.ops:
        code = "FillPad"  # the padding of a dimension that is reduced
    elif op.family == "unary" and op.first.dtype != op.out.dtype:
        code = "Typecast"
    return code if code in WHOLE else f"{code}{SUFFIX}"
