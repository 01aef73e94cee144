"""Looking rows up."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from proveout.kernels.table import Kernel, Specs
from proveout.types import TensorSpec

Tensor = torch.Tensor


def embedding(input_tensor: Tensor, weight: Tensor, layout: str = "row_major") -> Tensor:
    return F.embedding(input_tensor.to(torch.int64), weight)


def embedding_refuses(specs: Specs) -> str | None:
    weight: TensorSpec = specs["weight"]
    if weight.dtype != "bfloat16":
        return f"ttnn.embedding takes a bfloat16 table, not {weight.dtype}"
    if specs["input_tensor"].dtype not in ("uint32", "bfloat16"):
        return f"ttnn.embedding takes uint32 indices, not {specs['input_tensor'].dtype}"
    return None


KERNELS = [Kernel("ttnn.embedding", embedding, layout="row_major", refuse=embedding_refuses)]
