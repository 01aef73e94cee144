"""The cache of a decoder in pages: [pages, heads, page, head size], and a table [users, pages of a user] that names the
pages of each user in order. What `decode` does with a cache of whole users, these do with a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from proveout.chip.device_op import DeviceOp, Work
from proveout.kernels import decode, decode_buffers
from proveout.kernels.row import Call, Kernel, Specs, one_op
from proveout.reasons import Kind, Reason
from proveout.types import DRAM, TILE, TensorSpec

PAGES = Kind("pages", "ttnn {kernel} takes pages of [pages, heads, a multiple of {tile}, head size], not {shape}")
PROMPT = Kind(
    "page-prompt", "ttnn {kernel} takes a prompt of [1, heads, length, head size] that its pages hold, not {shape}"
)

Tensor = torch.Tensor
FILL = "paged_fill_cache"
ATTEND = "paged_scaled_dot_product_attention_decode"


def joined(pages: Tensor, table: Tensor) -> Tensor:
    """[users, heads, length, size]: each user's pages in the order of its row of the table."""
    held = pages[table.long()]  # [users, pages of a user, heads, page, size]
    return held.transpose(1, 2).flatten(2, 3)


def fill(cache_tensor: Tensor, input_tensor: Tensor, page_table: Tensor, batch_idx: int = 0) -> Tensor:
    """A prompt's keys or values [1, heads, length, size] in the pages of one row of the table."""
    cache = cache_tensor.clone()
    if cache.device.type == "meta":
        return cache
    page = cache.shape[2]
    for start in range(0, input_tensor.shape[2], page):
        piece = input_tensor[0, :, start : start + page]
        cache[int(page_table[batch_idx, start // page]), :, : piece.shape[1]] = piece.to(cache.dtype)
    return cache


def pages_refuse(kernel: str, pages: TensorSpec) -> Reason | None:
    if len(pages.shape) != 4 or pages.shape[2] % TILE:
        return PAGES(kernel=kernel, tile=TILE, shape=pages.shape)
    return None


def fill_refuses(specs: Specs) -> Reason | None:
    cache, prompt, table = (specs[n] for n in ("cache_tensor", "input_tensor", "page_table"))
    if why := decode.table_refuses(FILL, table) or pages_refuse(FILL, cache):
        return why
    shape, room = prompt.shape, table.shape[1] * cache.shape[2]
    if len(shape) != 4 or shape[0] != 1 or (shape[1], shape[3]) != (cache.shape[1], cache.shape[3]) or shape[2] > room:
        return PROMPT(kernel=FILL, shape=shape)
    return None


def attend(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    page_table_tensor: Tensor,
    is_causal: bool = True,
    attn_mask: Tensor | None = None,
    cur_pos_tensor: Tensor | None = None,
    scale: float | None = None,
    sliding_window_size: int | None = None,
) -> Tensor:
    """Each user's query heads over its pages up to its position; the results lie as the queries did."""
    keys, values = (joined(t, page_table_tensor) for t in (input_tensor_k, input_tensor_v))
    return decode.attend(
        input_tensor_q, keys, values, is_causal, attn_mask, (), cur_pos_tensor, scale, sliding_window_size
    )


def attend_refuses(specs: Specs) -> Reason | None:
    if why := decode.table_refuses(ATTEND, specs["page_table_tensor"]) or pages_refuse(ATTEND, specs["input_tensor_k"]):
        return why
    return decode.attend_refuses(_joined_specs(specs))


def attend_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return decode.attend_work(_joined_specs(specs), outputs)


def attend_ops(call: Call) -> list[DeviceOp]:
    """The pages of a user are read as a cache of its own would be."""
    specs = _joined_specs(call.specs)
    q, k, v = (specs[f"input_tensor_{x}"] for x in "qkv")
    return [decode.attention_op((q, k, v), call, specs, specs["page_table_tensor"].shape[1])]


def _joined_specs(specs: Specs) -> dict[str, Any]:
    """The same call on a cache of whole users."""
    users, count = specs["page_table_tensor"].shape
    joined_specs = dict(specs)
    for name in ("input_tensor_k", "input_tensor_v"):
        _, heads, page, size = specs[name].shape
        joined_specs[name] = TensorSpec((users, heads, count * page, size), specs[name].dtype, specs[name].layout)
    return joined_specs


KERNELS = [
    Kernel(
        f"ttnn.experimental.{FILL}",
        fill,
        kind="index",
        device_ops=one_op("fill cache", buffers=decode_buffers.fill_cache),
        layout=None,
        out_layout="tile",
        out_memory=DRAM,
        refuse=fill_refuses,
        dram_operands=frozenset({"cache_tensor", "page_table"}),
        caches=frozenset({"cache_tensor"}),
        put_as_is="input_tensor",
        shares_buffer=True,
        in_place=True,
    ),
    Kernel(
        f"ttnn.transformer.{ATTEND}",
        attend,
        attend_work,
        "attention",
        attend_ops,
        layout=None,
        out_layout="tile",
        out_memory=DRAM,
        refuse=attend_refuses,
        dram_operands=frozenset(
            {"input_tensor_q", "input_tensor_k", "input_tensor_v", "cur_pos_tensor", "page_table_tensor"}
        ),
        caches=frozenset({"input_tensor_k", "input_tensor_v"}),
    ),
]
