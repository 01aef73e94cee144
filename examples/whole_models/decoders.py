"""One token of each user through Llamas: as tt_transformers writes them, and one layer as its port optimised it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from pieces import HIFI2, LAYOUT, LOFI, NEAR, heights, normed, sent, widths, words

from proveout import ttnn
from proveout.ttnn import Recording

FAR = ttnn.DRAM_MEMORY_CONFIG
SILU = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
BF16 = {"dtype": ttnn.bfloat16}


def on_banks(device: Any, deep: int, wide: int, dtype: Any) -> Any:
    """A weight whose columns lie on the DRAM banks, one after another."""
    banks = device.dram_grid_size().x
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(banks - 1, 0))})
    shard = ttnn.ShardSpec(cores, (deep, -(-wide // 32 // banks) * 32), ttnn.ShardOrientation.ROW_MAJOR)
    return sent(
        device, deep, wide, dtype=dtype, place=ttnn.MemoryConfig(LAYOUT.WIDTH_SHARDED, ttnn.BufferType.DRAM, shard)
    )


def bank_config(deep: int, wide: int, cores: int, longest: int = 8) -> Any:
    """tt_transformers' rule: each step takes the longest part of a core's K tiles that divides them."""
    held = max(1, deep // 32 // cores)
    step = next(n for n in range(min(longest, held), 0, -1) if held % n == 0)
    return ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(
        in0_block_w=step, per_core_M=1, per_core_N=-(-wide // 32 // cores), fused_activation=None
    )


@dataclass(frozen=True)
class Decoder:
    """tt_transformers: products on the cores beside the DRAM banks, the row of activations over 32 cores or, in the
    MLP, over as many as divide both sides. `performance` has 4 bits in the gate and up projections alone; `accuracy`
    has 8 bits everywhere, for a Llama in attention too."""

    layers: int
    width: int
    heads: int
    shared: int
    hidden: int
    words: int
    size: int = 128
    gate: Any = ttnn.bfloat4_b
    position: int = 612
    users: int = 1

    @property
    def spread(self) -> int:
        """Cores of the MLP's rows."""
        deep, wide = self.width // 32, self.hidden // 32
        return next(n for n in (64, 56, 48, 40, 32, 16, 8) if deep % n == 0 and wide % n == 0)

    def product(self, x: Any, weight: Any, cores: int, dtype: Any = ttnn.bfloat16) -> Any:
        return ttnn.linear(
            x, weight, program_config=bank_config(weight.shape[-2], weight.shape[-1], cores), dtype=dtype,
            memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
            compute_kernel_config=LOFI if weight.dtype == ttnn.bfloat4_b else HIFI2,
        )  # fmt: skip

    def norm(self, x: Any, gain: Any, cores: int) -> Any:
        grid = (8, cores // 8)
        place = widths(self.width, grid)
        wide = self.width // 32 // cores
        config = normed(grid, 1, wide, next(n for n in (4, 3, 2, 1) if wide % n == 0))
        return ttnn.rms_norm(
            ttnn.to_memory_config(x, place), epsilon=1e-5, weight=gain, program_config=config, memory_config=place,
            compute_kernel_config=HIFI2,
        )  # fmt: skip

    def layer(self, device: Any) -> Recording:
        width, users, at = self.width, self.users, [self.position] * self.users
        fused = (self.heads + 2 * self.shared) * self.size
        qkv = on_banks(device, width, fused, ttnn.bfloat8_b)
        out = on_banks(device, self.heads * self.size, width, ttnn.bfloat8_b)
        gate, up = (on_banks(device, width, self.hidden, self.gate) for _ in range(2))
        down = on_banks(device, self.hidden, width, ttnn.bfloat8_b)
        gains = [sent(device, 1, width, **BF16) for _ in range(2)]
        caches = [sent(device, users, self.shared, 1024, self.size) for _ in range(2)]
        cos, sin = (sent(device, 1, users, 1, self.size, **BF16) for _ in range(2))
        swap = sent(device, 1, 1, 32, 32, **BF16)
        row = widths(width, (8, 4))
        x = sent(device, 1, 1, users, width, place=row, **BF16)
        with ttnn.record("llama layer", inputs=[x]) as recording:
            y = ttnn.to_memory_config(self.product(self.norm(x, gains[0], 32), qkv, 32), NEAR)
            q, k, v = ttnn.experimental.nlp_create_qkv_heads_decode(
                y, num_heads=self.heads, num_kv_heads=self.shared, memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG
            )
            q, k = (ttnn.experimental.rotary_embedding_llama(t, cos, sin, swap, is_decode_mode=True) for t in (q, k))
            for cache, new in zip(caches, (k, v)):
                ttnn.experimental.paged_update_cache(cache, new, update_idxs=at)
            y = ttnn.transformer.scaled_dot_product_attention_decode(q, *caches, cur_pos=at, memory_config=FAR)
            y = ttnn.to_memory_config(y, heights(32 * users, self.size, (1, users)))
            y = self.product(ttnn.experimental.nlp_concat_heads_decode(y, num_heads=self.heads), out, 32)
            x = ttnn.add(x, ttnn.to_memory_config(y, row), memory_config=row)
            y = self.norm(x, gains[1], self.spread)
            y = ttnn.multiply(
                self.product(y, gate, self.spread), self.product(y, up, self.spread), dtype=ttnn.bfloat8_b,
                input_tensor_a_activations=[SILU],
            )  # fmt: skip
            y = ttnn.to_memory_config(y, widths(self.hidden, (8, self.spread // 8)))
            y = ttnn.to_memory_config(self.product(y, down, self.spread), row)
            ttnn.to_torch(ttnn.add(x, y, memory_config=row))
        return recording

    def rest(self, device: Any) -> Recording:
        """What surrounds the layers: the embeddings of the token and of its position, the last norm, a score for every
        word in as many parts as L1 has room for, all scores in rows for the host."""
        width = self.width
        cores = next(8 * n for n in range(8, 0, -1) if width % (256 * n) == 0)
        parts = -(-self.words // (668 * cores))
        gain = sent(device, 1, width, **BF16)
        scores = [on_banks(device, width, -(-self.words // parts // 32) * 32, ttnn.bfloat8_b) for _ in range(parts)]
        tables = [ttnn.to_layout(sent(device, *shape, **BF16), ttnn.ROW_MAJOR_LAYOUT)
                  for shape in ((self.words, width), (1024, self.size), (1024, self.size))]  # fmt: skip
        token, place = words(device, 1, 32), words(device, 1, 32)
        with ttnn.record("llama rest", inputs=[token, place]) as recording:
            for table in tables[1:]:
                angles = ttnn.embedding(place, table, layout=ttnn.TILE_LAYOUT)
                ttnn.to_memory_config(ttnn.reshape(angles, (1, 1, 32, self.size)), heights(32, self.size, (1, 1)))
            x = ttnn.embedding(token, tables[0], layout=ttnn.TILE_LAYOUT)
            x = ttnn.to_memory_config(ttnn.reshape(x, (1, 1, 32, width)), widths(width, (8, 4)))
            y = self.norm(x, gain, cores)
            found = [ttnn.to_memory_config(self.product(y, part, cores, ttnn.bfloat8_b), NEAR) for part in scores]
            y = ttnn.concat(found, -1, memory_config=NEAR) if parts > 1 else found[0]
            y = ttnn.to_layout(y, ttnn.ROW_MAJOR_LAYOUT, dtype=ttnn.bfloat16)
            ttnn.to_torch(ttnn.to_memory_config(y, FAR))
        return recording


LLAMA_8B = {"layers": 32, "width": 4096, "heads": 32, "shared": 8, "hidden": 14336, "words": 128256}
LLAMA_3B = {"layers": 28, "width": 3072, "heads": 24, "shared": 8, "hidden": 8192, "words": 128256}
LLAMA_1B = {"layers": 16, "width": 2048, "heads": 32, "shared": 8, "hidden": 8192, "words": 128256, "size": 64}
PHI_MINI = {"layers": 32, "width": 3072, "heads": 32, "shared": 32, "hidden": 8192, "words": 32064, "size": 96}
ACCURACY = {"gate": ttnn.bfloat8_b}
DECODERS = {
    "llama-3.2-1b": Decoder(**LLAMA_1B), "llama-3.2-1b, accuracy": Decoder(**LLAMA_1B, **ACCURACY),
    "llama-3.2-3b": Decoder(**LLAMA_3B), "llama-3.2-3b, accuracy": Decoder(**LLAMA_3B, **ACCURACY),
    "llama-3.1-8b": Decoder(**LLAMA_8B), "llama-3.1-8b, accuracy": Decoder(**LLAMA_8B, **ACCURACY),
    "mistral-7b": Decoder(**LLAMA_8B | {"words": 32768}),
    "phi-3.5-mini": Decoder(**PHI_MINI), "phi-3.5-mini, accuracy": Decoder(**PHI_MINI, **ACCURACY),
}  # fmt: skip


# ---- one layer as its port optimised it ------------------------------------------------------------------------------


def ported_layer(device: Any, final: bool = True) -> Recording:
    """A layer of Llama-3.1-8B on one chip, all weights in 4 bits. The first version keeps residual and norms in DRAM,
    so that one core runs a norm, and lets ttnn cut gate and up; the final one has both over cores."""
    width, heads, shared, hidden, size, at = 4096, 32, 8, 14336, 128, [16]
    fused = (heads + 2 * shared) * size
    weights = {"dtype": ttnn.bfloat4_b}
    qkv, out = sent(device, width, fused, **weights), sent(device, width, width, **weights)
    gate, up = (sent(device, width, hidden, **weights) for _ in range(2))
    down = on_banks(device, hidden, width, ttnn.bfloat4_b)
    gains = [sent(device, 1, width, **BF16) for _ in range(2)]
    caches = [sent(device, 1, shared, 128, size) for _ in range(2)]
    cos, sin = (sent(device, 1, 1, 1, size, **BF16) for _ in range(2))
    row, one = widths(width, (8, 4)), heights(32, size, (1, 1))
    lofi = {"compute_kernel_config": LOFI}
    wide = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_size=ttnn.CoreCoord(8, 8), in0_block_w=4, out_subblock_h=1, out_subblock_w=7,
        per_core_M=1, per_core_N=7, fuse_batch=True, fused_activation=None, mcast_in0=True,
    )  # fmt: skip

    def product(x: Any, weight: Any, config: Any = None) -> Any:
        more = {} if config is None else {"program_config": config}
        return ttnn.matmul(x, weight, memory_config=FAR, **BF16, **more, **lofi)

    def turned(x: Any, count: int, rotate: bool) -> Any:
        x = ttnn.reshape(x, (1, 1, count, size))
        if rotate:
            x = ttnn.experimental.rotary_embedding_hf(ttnn.permute(x, (0, 2, 1, 3)), cos, sin)
            x = ttnn.slice(ttnn.permute(x, (0, 2, 1, 3)), (0, 0, 0, 0), (1, 1, count, size))
        return ttnn.to_memory_config(x, one)

    x = sent(device, 1, 1, 1, width, **BF16)
    with ttnn.record("ported llama layer", inputs=[x]) as recording:
        y = product(ttnn.rms_norm(x, epsilon=1e-5, weight=gains[0], memory_config=FAR, **lofi), qkv)
        ends = (0, width, width + shared * size, fused)
        q, k, v = (ttnn.slice(y, (0, 0, 0, a), (1, 1, 1, b)) for a, b in itertools.pairwise(ends))
        q, k, v = turned(q, heads, True), turned(k, shared, True), turned(v, shared, False)
        for cache, new in zip(caches, (k, v)):
            ttnn.experimental.paged_update_cache(cache, new, update_idxs=at)
        y = ttnn.transformer.scaled_dot_product_attention_decode(q, *caches, cur_pos=at, memory_config=FAR)
        y = ttnn.experimental.nlp_concat_heads_decode(ttnn.to_memory_config(y, one), num_heads=heads)
        y = product(ttnn.slice(y, (0, 0, 0, 0), (1, 1, 1, width)), out)
        if final:
            x = ttnn.add(ttnn.to_memory_config(y, row), ttnn.to_memory_config(x, row), memory_config=row)
            config = normed((8, 4), 1, 4, 4)
            y = ttnn.rms_norm(x, epsilon=1e-5, weight=gains[1], program_config=config, memory_config=row, **lofi)
        else:
            x = ttnn.add(y, x, memory_config=FAR)
            y = ttnn.rms_norm(x, epsilon=1e-5, weight=gains[1], memory_config=FAR, **lofi)
            y = ttnn.to_memory_config(y, NEAR)
        config = wide if final else None
        y = ttnn.multiply(
            ttnn.silu(product(y, gate, config), memory_config=FAR), product(y, up, config), memory_config=FAR
        )
        y = ttnn.linear(
            ttnn.to_memory_config(y, widths(hidden, (8, 1))), down, memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
            program_config=bank_config(hidden, width, 8, 14), **BF16, **lofi,
        )  # fmt: skip
        if final:
            ttnn.to_torch(ttnn.to_memory_config(ttnn.add(y, x, memory_config=row), FAR))
        else:
            ttnn.to_torch(ttnn.add(ttnn.to_memory_config(y, FAR), x, memory_config=FAR))
    return recording
