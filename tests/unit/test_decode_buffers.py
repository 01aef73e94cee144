"""What decoders' kernels hold in L1 beside their tensors is what real ttnn 0.81.1 lays out on its mock n150."""

from __future__ import annotations

import pytest

from proveout.chip.specs import CHIPS
from proveout.kernels.circular import held_by
from proveout.kernels.device_ops import device_ops
from proveout.kernels.table import kernels
from proveout.types import DRAM, TensorSpec


def tensor(*shape: int, dtype: str = "bfloat16") -> TensorSpec:
    return TensorSpec(shape, dtype, "row_major" if dtype == "int32" else "tile", DRAM)


def attend(users: int, heads: int, shared: int, length: int, size: int, **more: object) -> dict[str, object]:
    cache = tensor(users, shared, length, size)
    positions = tensor(users, dtype="int32")
    return {"input_tensor_q": tensor(1, users, heads, size), "input_tensor_k": cache, "input_tensor_v": cache,
            "cur_pos_tensor": positions, **more}  # fmt: skip


def paged(users: int, heads: int, shared: int, page: int, size: int, pages: int) -> dict[str, object]:
    cache = tensor(users * pages + 1, shared, page, size)
    held = {"input_tensor_k": cache, "input_tensor_v": cache, "page_table_tensor": tensor(users, pages, dtype="int32")}
    return {**attend(users, heads, shared, page, size), **held}


ATTEND = "ttnn.transformer.scaled_dot_product_attention_decode"
PAGED = "ttnn.transformer.paged_scaled_dot_product_attention_decode"
SEEN = [
    (ATTEND, attend(1, 4, 2, 128, 32), tensor(1, 1, 4, 32), 159808),
    (ATTEND, attend(4, 4, 2, 128, 32), tensor(1, 4, 4, 32), 86080),
    (ATTEND, attend(1, 32, 8, 256, 128), tensor(1, 1, 32, 128), 467008),
    (ATTEND, attend(1, 32, 8, 256, 128, sliding_window_size=64), tensor(1, 1, 32, 128), 483392),
    (ATTEND, attend(32, 32, 8, 1024, 128), tensor(1, 32, 32, 128), 676096),
    (ATTEND, attend(1, 32, 32, 256, 96), tensor(1, 1, 32, 96), 311360),
    (ATTEND, attend(8, 16, 4, 512, 128), tensor(1, 8, 16, 128), 611392),
    (ATTEND, attend(2, 71, 1, 128, 64), tensor(1, 2, 71, 64), 1036352),
    (PAGED, paged(1, 32, 8, 32, 128, 8), tensor(1, 1, 32, 128), 122976),
    (PAGED, paged(32, 32, 8, 64, 128, 16), tensor(1, 32, 32, 128), 123200),
    (PAGED, paged(1, 32, 8, 32, 64, 64), tensor(1, 1, 32, 64), 78144),
    ("ttnn.transformer.concatenate_heads", {"input_tensor": tensor(4, 12, 128, 64)}, tensor(4, 128, 768), 98304),
    ("ttnn.topk", {"input_tensor": tensor(1, 128256), "k": 64, "dim": 1}, tensor(1, 64), 73728),
    ("ttnn.topk", {"input_tensor": tensor(1, 32768), "k": 32, "dim": 1}, tensor(1, 32), 421888),
    ("ttnn.topk", {"input_tensor": tensor(1, 4064), "k": 32, "dim": 1}, tensor(1, 32), 36864),
]


@pytest.mark.parametrize(("kernel", "specs", "out", "held"), SEEN, ids=lambda value: str(value)[:40])
def test_circular_buffers_are_those_of_ttnn(kernel: str, specs: dict, out: TensorSpec, held: int) -> None:
    row = kernels()[kernel]
    [op] = device_ops(row, specs, [out], row.work(specs, [out]), "HiFi2")
    assert held_by(op, CHIPS["n150"]).circular == held
