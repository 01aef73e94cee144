"""Looking rows up."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F

from proveout.chip.device_op import DeviceOp
from proveout.kernels import cuts
from proveout.kernels.device_ops import tilize_ops
from proveout.kernels.row import Call, Kernel, Specs, Weight
from proveout.reasons import PRECISION, Kind, Reason
from proveout.types import TensorSpec

TABLE_DTYPE = Kind(
    "embedding-table",
    "ttnn.embedding takes a bfloat16 table, not {dtype}",
    lambda why: PRECISION if why["dtype"] == "float32" else f"cast the table from {why['dtype']} to bfloat16",
)
INDEX_DTYPE = Kind(
    "embedding-indices",
    "ttnn.embedding takes uint32 indices, not {dtype}",
    "cast the indices from {dtype} to uint32 before it",
)

Tensor = torch.Tensor


def embedding(input_tensor: Tensor, weight: Tensor, layout: str = "row_major") -> Tensor:
    return F.embedding(input_tensor.to(torch.int64), weight)


def embedding_refuses(specs: Specs) -> Reason | None:
    weight: TensorSpec = specs["weight"]
    if weight.dtype != "bfloat16":
        return TABLE_DTYPE(dtype=weight.dtype)
    if specs["input_tensor"].dtype not in ("uint32", "bfloat16"):
        return INDEX_DTYPE(dtype=specs["input_tensor"].dtype)
    return None


def embedding_ops(call: Call) -> list[DeviceOp]:
    """Whole tiles are made on the way; ragged ones by an operation of their own."""
    out = call.out
    if out.padded_shape == out.shape:
        return [DeviceOp("embedding", call.operands, (out,))]
    plain = replace(out, layout="row_major")
    return [DeviceOp("embedding", call.operands, (plain,)), *tilize_ops(plain, out)]


KERNELS = [
    Kernel(
        "ttnn.embedding",
        embedding,
        kind="lookup",
        device_ops=embedding_ops,
        layout="row_major",
        refuse=embedding_refuses,
        weight=Weight("weight"),
        cut=cuts.lookup,
    )
]
