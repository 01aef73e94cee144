"""What a decoder runs for one token of each user: heads from a row, rotations, the cache, attention over it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from proveout.chip.device_op import MATRIX, DeviceOp, Work
from proveout.kernels import decode_buffers
from proveout.kernels.attention import rotary_work
from proveout.kernels.row import FLOAT, Call, Kernel, Specs, one_op
from proveout.reasons import Kind, Reason
from proveout.types import DRAM, L1, TILE, Memory, TensorSpec

USERS = Kind("decode-users", "ttnn {kernel} takes [1, 1, users, width] of at most {most} users, not {shape}")
HEADS_SHAPE = Kind("decode-heads", "ttnn {kernel} takes [1, users, heads, head size], not {shape}")
CACHE = Kind("decode-cache", "ttnn {kernel} takes a cache of [users, heads, length, head size] for its {users} users")
FILLING = Kind(
    "fill-prompt", "ttnn.fill_cache takes one prompt of [1, heads, length, head size] that fits, not {shape}"
)
DECODE_HEAD_SIZE = Kind("decode-head-size", "ttnn {kernel} takes heads of a multiple of {tile} elements, not {size}")
DECODE_DTYPE = Kind("decode-dtype", "ttnn {kernel} takes bfloat16 and block floats, not {dtype}")
POSITION_FORM = Kind("decode-position-form", "ttnn {kernel} takes positions as int32 in rows, not {form}")
CACHE_LENGTH = Kind(
    "decode-cache-length", "ttnn {kernel} takes a cache of a multiple of {tile} positions, not {length}"
)
TABLE = Kind("page-table", "ttnn {kernel} takes a page table of [users, pages] as int32 in rows, not {form}")
POSITIONS = Kind(
    "decode-positions", "ttnn {kernel} takes a position for each of its {users} users: cur_pos, or a tensor"
)

Tensor = torch.Tensor
MOST_USERS = 32


def create_heads(
    input_tensor: Tensor, num_heads: int, num_kv_heads: int | None = None, overlap_qk_coregrid: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """[1, 1, users, (queries, keys, values)] -> three of [1, users, heads, head size]."""
    shared = num_heads if num_kv_heads is None else num_kv_heads
    users, width = input_tensor.shape[-2:]
    heads = input_tensor.reshape(1, users, -1, width // (num_heads + 2 * shared))
    query, key, value = heads.split((num_heads, shared, shared), 2)
    return query, key, value


def create_heads_refuses(specs: Specs) -> Reason | None:
    shape = specs["input_tensor"].shape
    if len(shape) != 4 or shape[:2] != (1, 1) or shape[2] > MOST_USERS:
        return USERS(kernel="nlp_create_qkv_heads_decode", most=MOST_USERS, shape=shape)
    return None


def concat_heads(input_tensor: Tensor, num_heads: int) -> Tensor:
    """[1, users, heads, head size] -> [1, 1, users, heads x head size]."""
    return input_tensor[:, :, :num_heads].flatten(2).unsqueeze(1)


def concat_heads_refuses(specs: Specs) -> Reason | None:
    shape = specs["input_tensor"].shape
    if len(shape) != 4 or shape[0] != 1:
        return HEADS_SHAPE(kernel="nlp_concat_heads_decode", shape=shape)
    return None


def rotary(
    input_tensor: Tensor, cos_cache: Tensor, sin_cache: Tensor, trans_mat: Tensor, is_decode_mode: bool = False
) -> Tensor:
    """Pairs of neighbours are rotated: a small matrix swaps them, a tile of the head at a time."""
    swap = trans_mat[..., :TILE, :TILE].reshape(-1, TILE, TILE)[0].float()
    tiles = input_tensor.float().unflatten(-1, (-1, TILE))
    turned = (tiles @ swap).flatten(-2)
    rows = input_tensor.shape[-2]
    cos, sin = (t.float()[..., : 1 if is_decode_mode else rows, :] for t in (cos_cache, sin_cache))
    return (input_tensor.float() * cos + turned * sin).to(input_tensor.dtype)


def update_cache(
    cache_tensor: Tensor,
    input_tensor: Tensor,
    update_idxs: Sequence[int] = (),
    update_idxs_tensor: Tensor | None = None,
    share_cache: bool | None = None,
    page_table: Tensor | None = None,
) -> Tensor:
    """Each user's keys or values at its position, of the page that the table names there where the cache has pages."""
    at = list(update_idxs) if update_idxs_tensor is None else update_idxs_tensor
    cache = cache_tensor.clone()
    if cache.device.type == "meta":
        return cache
    for user, position in enumerate(at if isinstance(at, list) else at.reshape(-1).tolist()):
        if position >= 0:
            place, row = user, int(position)
            if page_table is not None:
                row = int(position) % cache.shape[2]
                place = int(page_table[user, int(position) // cache.shape[2]])
            cache[place, :, row] = input_tensor[0, user, : cache.shape[1]].to(cache.dtype)
    return cache


def update_cache_refuses(specs: Specs) -> Reason | None:
    cache, update = specs["cache_tensor"].shape, specs["input_tensor"].shape
    if len(update) != 4 or update[0] != 1:
        return HEADS_SHAPE(kernel="paged_update_cache", shape=update)
    users, table = update[1], specs.get("page_table")
    if table is not None and (why := table_refuses("paged_update_cache", table)):
        return why
    if len(cache) != 4 or (table is None and cache[0] < users) or cache[1] > update[2] or cache[3] != update[3]:
        return CACHE(kernel="paged_update_cache", users=users)
    if update[3] % TILE:
        return DECODE_HEAD_SIZE(kernel="paged_update_cache", tile=TILE, size=update[3])
    positions = specs.get("update_idxs_tensor")
    if positions is not None and (positions.dtype != "int32" or positions.layout != "row_major"):
        return POSITION_FORM(kernel="paged_update_cache", form=f"{positions.dtype} in {positions.layout}")
    count = len(specs.get("update_idxs", ())) if positions is None else positions.numel
    return None if count == users else POSITIONS(kernel="paged_update_cache", users=users)


def fill_cache(cache_tensor: Tensor, input_tensor: Tensor, batch_idx: int) -> Tensor:
    """A prompt's keys or values [1, heads, length, size] in the first positions of one user."""
    cache = cache_tensor.clone()
    cache[batch_idx, :, : input_tensor.shape[2]] = input_tensor[0].to(cache.dtype)
    return cache


def fill_cache_refuses(specs: Specs) -> Reason | None:
    cache, prompt, user = specs["cache_tensor"], specs["input_tensor"], specs["batch_idx"]
    if len(cache.shape) != 4 or not 0 <= user < cache.shape[0] or prompt.dtype != cache.dtype:
        return CACHE(kernel="fill_cache", users=user + 1)
    if len(prompt.shape) != 4 or prompt.shape[:2] != (1, cache.shape[1]) or prompt.shape[3] != cache.shape[3]:
        return FILLING(shape=prompt.shape)
    return FILLING(shape=prompt.shape) if prompt.shape[2] > cache.shape[2] else None


def table_refuses(kernel: str, table: TensorSpec) -> Reason | None:
    if len(table.shape) != 2 or table.dtype != "int32" or table.layout != "row_major":
        return TABLE(kernel=kernel, form=f"{table.dtype}{list(table.shape)} in {table.layout}")
    return None


def attend(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    is_causal: bool = True,
    attn_mask: Tensor | None = None,
    cur_pos: Sequence[int] = (),
    cur_pos_tensor: Tensor | None = None,
    scale: float | None = None,
    sliding_window_size: int | None = None,
) -> Tensor:
    """Each user's query heads over its cache up to its position; the results lie as the queries did."""
    length = input_tensor_k.shape[-2]
    q = input_tensor_q.permute(1, 2, 0, 3)  # [users, heads, 1, head size]
    mask = attn_mask
    if is_causal and q.device.type != "meta":
        at = cur_pos_tensor.reshape(-1).tolist() if cur_pos_tensor is not None else list(cur_pos)
        seen = torch.arange(length)[None, :] <= torch.tensor([int(p) for p in at])[:, None]
        if sliding_window_size:
            seen &= torch.arange(length)[None, :] > torch.tensor([int(p) for p in at])[:, None] - sliding_window_size
        mask = seen[:, None, None, :]
    k, v = (t[: q.shape[0]].to(q.dtype) for t in (input_tensor_k, input_tensor_v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
    return out.permute(2, 0, 1, 3)


def attend_refuses(specs: Specs) -> Reason | None:
    q, k = specs["input_tensor_q"].shape, specs["input_tensor_k"].shape
    if len(q) != 4 or q[0] != 1:
        return HEADS_SHAPE(kernel="scaled_dot_product_attention_decode", shape=q)
    if len(k) != 4 or k[0] < q[1] or q[2] % k[1] or k[3] != q[3]:
        return CACHE(kernel="scaled_dot_product_attention_decode", users=q[1])
    if q[3] % TILE:
        return DECODE_HEAD_SIZE(kernel="scaled_dot_product_attention_decode", tile=TILE, size=q[3])
    if k[2] % TILE:
        return CACHE_LENGTH(kernel="scaled_dot_product_attention_decode", tile=TILE, length=k[2])
    dtypes = [specs[f"input_tensor_{x}"].dtype for x in "qkv"]
    if "float32" in dtypes:
        return DECODE_DTYPE(kernel="scaled_dot_product_attention_decode", dtype="float32")
    positions = specs.get("cur_pos_tensor")
    if positions is not None and (positions.dtype != "int32" or positions.layout != "row_major"):
        return POSITION_FORM(
            kernel="scaled_dot_product_attention_decode", form=f"{positions.dtype} in {positions.layout}"
        )
    count = len(specs.get("cur_pos", ())) if positions is None else positions.numel
    if specs.get("is_causal", True) and count != q[1]:
        return POSITIONS(kernel="scaled_dot_product_attention_decode", users=q[1])
    return None


def attend_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    q, k = specs["input_tensor_q"], specs["input_tensor_k"]
    return Work(4.0 * q.shape[1] * max(TILE, q.shape[2]) * seen_of(specs) * k.shape[-1], MATRIX, phased=True)


def seen_of(specs: Specs) -> int:
    """Positions of the cache that are looked at: up to the furthest that is told, else all."""
    positions, length = specs.get("cur_pos", ()), int(specs["input_tensor_k"].shape[-2])
    seen = max(positions) + 1 if positions else length
    window = specs.get("sliding_window_size")
    return max(1, min(seen, window) if window else seen)


def attend_ops(call: Call) -> list[DeviceOp]:
    """Only the filled part of the cache is read."""
    q, k, v = (call.specs[f"input_tensor_{x}"] for x in "qkv")
    return [attention_op((q, k, v), call, call.specs)]


def attention_op(parts: tuple[TensorSpec, ...], call: Call, specs: Specs, pages: int = 0) -> DeviceOp:
    window = bool(specs.get("sliding_window_size"))
    params = (("seen", seen_of(specs)), ("pages", pages), ("window", window))
    return DeviceOp(
        "decode attention",
        parts,
        call.outputs,
        call.work,
        call.fidelity,
        params=params,
        buffers=decode_buffers.attention,
    )


KERNELS = [
    Kernel(
        "ttnn.experimental.nlp_create_qkv_heads_decode",
        create_heads,
        kind="move",
        device_ops=one_op("create heads, decode", buffers=decode_buffers.none),
        dtypes=FLOAT,
        out_memory=Memory("l1", "height"),  # a user's heads are a shard: attention takes them so, or from DRAM
        refuse=create_heads_refuses,
    ),
    Kernel(
        "ttnn.experimental.nlp_concat_heads_decode",
        concat_heads,
        kind="move",
        device_ops=one_op("concat heads, decode"),
        dtypes=FLOAT,
        out_memory=L1,
        refuse=concat_heads_refuses,
    ),
    Kernel(
        "ttnn.experimental.rotary_embedding_llama",
        rotary,
        rotary_work,
        device_ops=one_op("rotary", "RotaryEmbeddingLlama"),
        dtypes=FLOAT,
    ),
    Kernel(
        "ttnn.experimental.paged_update_cache",
        update_cache,
        kind="index",
        device_ops=one_op("update cache", buffers=decode_buffers.update_cache),
        layout=None,
        out_layout="tile",
        out_memory=DRAM,
        refuse=update_cache_refuses,
        dram_operands=frozenset({"cache_tensor", "update_idxs_tensor", "page_table"}),
        user_shards=frozenset({"input_tensor"}),
        caches=frozenset({"cache_tensor"}),
        shares_buffer=True,
        in_place=True,
    ),
    Kernel(
        "ttnn.fill_cache",
        fill_cache,
        kind="index",
        device_ops=one_op("fill cache", "UpdateKVCacheOperation", buffers=decode_buffers.fill_user),
        dtypes=frozenset({"float32", "bfloat16", "bfloat8_b"}),
        out_memory=DRAM,
        refuse=fill_cache_refuses,
        dram_operands=frozenset({"cache_tensor"}),
        caches=frozenset({"cache_tensor"}),
        put_as_is="input_tensor",
        shares_buffer=True,
        in_place=True,
    ),
    Kernel(
        "ttnn.transformer.scaled_dot_product_attention_decode",
        attend,
        attend_work,
        "attention",
        attend_ops,
        layout=None,
        out_layout="tile",
        out_memory=DRAM,
        refuse=attend_refuses,
        dram_operands=frozenset({"input_tensor_q", "input_tensor_k", "input_tensor_v", "cur_pos_tensor"}),
        caches=frozenset({"input_tensor_k", "input_tensor_v"}),
    ),
]
