"""Models as tt-metal's developers write them by hand, through `from proveout import ttnn`: where tensors lie, how
products are cut, which formats they have. Shapes alone: no number is computed, so a whole model is recorded in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from proveout import ttnn
from proveout.ttnn import Recording

LAYOUT = ttnn.TensorMemoryLayout
TILES = {"layout": ttnn.TILE_LAYOUT}
LOFI = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.LoFi, fp32_dest_acc_en=False)
HIFI2 = ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi2, fp32_dest_acc_en=False)


def shell(*shape: int) -> torch.Tensor:
    """A tensor of no numbers."""
    return torch.empty(*shape, device="meta")


def sent(device: Any, *shape: int, dtype: Any = ttnn.bfloat8_b, place: Any = ttnn.DRAM_MEMORY_CONFIG) -> Any:
    return ttnn.from_torch(shell(*shape), dtype=dtype, device=device, memory_config=place, **TILES)


def block_sharded(rows: int, width: int, grid: tuple[int, int]) -> Any:
    return ttnn.create_sharded_memory_config(
        (rows, width), ttnn.CoreGrid(x=grid[0], y=grid[1]), ttnn.ShardStrategy.BLOCK, ttnn.ShardOrientation.ROW_MAJOR
    )


@dataclass(frozen=True)
class Encoder:
    """A transformer's encoder over all cores: rows of the batch down the grid, width across it; formats of 8 bits."""

    batch: int
    length: int
    width: int
    heads: int
    layers: int
    grid: tuple[int, int]
    before: bool
    """Whether norms come before what they serve, as in ViT, or after, as in BERT."""

    def product(self, x: Any, weight: Any, bias: Any, activation: str | None = None) -> Any:
        """Over a grid of cores; the activation runs inside the kernel."""
        grid = ttnn.CoreGrid(x=self.grid[0], y=self.grid[1])
        place = block_sharded(self.batch * self.length, weight.shape[-1], self.grid)
        return ttnn.linear(
            x, weight, bias=bias, core_grid=grid, memory_config=place, dtype=ttnn.bfloat8_b, activation=activation,
            compute_kernel_config=LOFI,
        )  # fmt: skip

    def norm(self, x: Any, weight: Any, bias: Any) -> Any:
        columns, rows = self.grid
        config = ttnn.LayerNormShardedMultiCoreProgramConfig(
            compute_with_storage_grid_size=ttnn.CoreCoord(columns, rows), subblock_w=1,
            block_h=self.batch * self.length // 32 // rows, block_w=self.width // 32 // columns, inplace=False,
        )  # fmt: skip
        return ttnn.layer_norm(
            x, weight=weight, bias=bias, memory_config=x.memory_config(), program_config=config,
            compute_kernel_config=HIFI2,
        )  # fmt: skip

    def attention(self, x: Any, parts: dict[str, Any]) -> Any:
        fused = self.product(x, *parts["qkv"])
        fused = ttnn.to_memory_config(fused, ttnn.L1_MEMORY_CONFIG)
        fused = ttnn.reshape(fused, (self.batch, self.length, 3 * self.width))
        q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(
            fused, num_heads=self.heads, transpose_key=True, memory_config=ttnn.L1_MEMORY_CONFIG
        )
        score_config, value_config = (
            ttnn.MatmulMultiCoreReuseProgramConfig(
                compute_with_storage_grid_size=ttnn.CoreCoord(*self.grid), in0_block_w=deep, out_subblock_h=1,
                out_subblock_w=1, per_core_M=self.length // 32, per_core_N=wide,
            )
            for deep, wide in ((2, self.length // 32), (self.length // 32, 2))
        )  # fmt: skip
        near = {"memory_config": ttnn.L1_MEMORY_CONFIG, "dtype": ttnn.bfloat8_b, "compute_kernel_config": LOFI}
        scores = ttnn.matmul(q, k, program_config=score_config, **near)
        scores = ttnn.softmax(scores, dim=-1)
        context = ttnn.matmul(scores, v, program_config=value_config, **near)
        joined = ttnn.transformer.concatenate_heads(context, memory_config=ttnn.L1_MEMORY_CONFIG)
        joined = ttnn.reshape(joined, (1, 1, self.batch * self.length, self.width))
        return self.product(ttnn.to_memory_config(joined, x.memory_config()), *parts["out"])

    def layer(self, x: Any, parts: dict[str, Any]) -> Any:
        near = {"memory_config": x.memory_config()}
        if self.before:
            x = ttnn.add(x, self.attention(self.norm(x, *parts["norm1"]), parts), **near)
            return ttnn.add(x, self.mlp(self.norm(x, *parts["norm2"]), parts), **near)
        x = self.norm(ttnn.add(x, self.attention(x, parts), **near), *parts["norm1"])
        return self.norm(ttnn.add(x, self.mlp(x, parts), **near), *parts["norm2"])

    def mlp(self, x: Any, parts: dict[str, Any]) -> Any:
        return self.product(self.product(x, *parts["up"], "gelu"), *parts["down"])

    def record(self, device: Any, head: int = 0, patches: int = 0) -> Recording:
        rows, width = self.batch * self.length, self.width
        shapes = {
            "qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width),
        }  # fmt: skip
        parts = {name: (sent(device, *shape), sent(device, 1, shape[1])) for name, shape in shapes.items()}
        for name in ("norm1", "norm2"):
            parts[name] = (sent(device, 1, width, dtype=ttnn.bfloat16), sent(device, 1, width, dtype=ttnn.bfloat16))
        embed = (sent(device, patches, width), sent(device, 1, width)) if patches else ()
        last = (sent(device, width, head), sent(device, 1, head)) if head else ()
        deep = patches or width
        x = sent(device, 1, 1, rows, deep)
        with ttnn.record("encoder", inputs=[x]) as recording:
            y = ttnn.linear(x, embed[0], bias=embed[1], dtype=ttnn.bfloat8_b) if embed else x
            y = ttnn.to_memory_config(y, block_sharded(rows, width, self.grid))
            for _ in range(self.layers):
                y = self.layer(y, parts)
            if last:
                y = ttnn.linear(ttnn.to_memory_config(y, ttnn.L1_MEMORY_CONFIG), last[0], bias=last[1])
            ttnn.to_torch(y)
        return recording


def bert(device: Any) -> Recording:
    """Sentence-BERT: BERT-Base, 8 sentences of 384 tokens, on 48 cores of either chip."""
    return Encoder(8, 384, 768, 12, 12, (6, 8), before=False).record(device)


def vit(device: Any) -> Recording:
    """ViT-Base: images of 224 pixels, 197 positions filled up to 224."""
    small = device.spec.grid[1] < 10
    encoder = Encoder(8 if small else 10, 224, 768, 12, 12, (8, 8) if small else (12, 10), before=True)
    return encoder.record(device, head=1024, patches=768)


# ---- ResNet-50 -------------------------------------------------------------------------------------------------------


def resnet50(device: Any, batch: int = 16) -> Recording:
    """Formats of 8 bits, pixels in height shards, from stage 3 on in block shards; the first one folded."""
    weights: dict[tuple[int, ...], Any] = {}

    def conv(x: Any, out: int, size: int, window: int, stride: int, kind: Any, activation: bool = True) -> Any:
        deep = x.shape[-1]
        key = (out, deep, window)
        relu = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU) if activation else None
        edge = 0 if window in (1, 4) else window // 2
        config = ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat8_b, shard_layout=kind, reshard_if_not_optimal=True, activation=relu
        )
        made, weights[key] = ttnn.conv2d(
            input_tensor=x, weight_tensor=weights[key][0], bias_tensor=weights[key][1], device=device, in_channels=deep,
            out_channels=out, batch_size=batch, input_height=size, input_width=size, kernel_size=(window, window),
            stride=(stride, stride), padding=(edge, edge), conv_config=config, compute_config=LOFI,
            dtype=ttnn.bfloat8_b, return_weights_and_bias=True,
        )  # fmt: skip
        return made

    for key in _weight_shapes():
        weights[key] = (ttnn.from_torch(shell(*key, key[-1])), ttnn.from_torch(shell(1, 1, 1, key[0])))
    image = ttnn.from_torch(shell(1, 1, batch * 115 * 115, 16), dtype=ttnn.bfloat16)
    columns, lines = device.spec.grid
    share = -(-batch * 115 * 115 // (columns * lines))
    image = ttnn.to_device(image, device, memory_config=ttnn.create_sharded_memory_config(
        (share, 16), ttnn.CoreGrid(x=columns, y=lines), ttnn.ShardStrategy.HEIGHT,
        use_height_and_width_as_shard_shape=True,
    ))  # fmt: skip
    last = sent(device, 2048, 1024), sent(device, 1, 1024)
    with ttnn.record("resnet50", inputs=[image]) as recording:
        x = conv(image, 64, 115, 4, 1, LAYOUT.HEIGHT_SHARDED)
        x = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
        x = ttnn.max_pool2d(x, batch, 112, 112, 64, [3, 3], [2, 2], [1, 1], [1, 1])
        size = 56
        for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
            kind = LAYOUT.HEIGHT_SHARDED if stage < 2 else LAYOUT.BLOCK_SHARDED
            for block in range(blocks):
                stride = 2 if block == 0 and stage else 1
                y = conv(x, width, size, 1, 1, kind)
                y = conv(y, width, size, 3, stride, kind)
                kept = conv(x, 4 * width, size, 1, stride, kind, False) if block == 0 else x
                size //= stride
                y = conv(y, 4 * width, size, 1, 1, kind, False)
                x = ttnn.add(y, ttnn.to_memory_config(kept, y.memory_config()), activations=[ttnn.UnaryOpType.RELU])
        x = ttnn.to_layout(ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG), ttnn.ROW_MAJOR_LAYOUT)
        x = ttnn.global_avg_pool2d(ttnn.reshape(x, (batch, size, size, 2048)))
        x = ttnn.reshape(x, (1, 1, batch, 2048))
        ttnn.to_torch(ttnn.linear(x, last[0], bias=last[1], compute_kernel_config=LOFI))
    return recording


def _weight_shapes() -> set[tuple[int, int, int]]:
    """Channels out, channels in, window."""
    found, deep = {(64, 16, 4)}, 64
    for width in (64, 128, 256, 512):
        found |= {
            (width, deep, 1),
            (width, 4 * width, 1),
            (width, width, 3),
            (4 * width, width, 1),
            (4 * width, deep, 1),
        }
        deep = 4 * width
    return found


# ---- one token of a Llama --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decoder:
    """One token of each user through a Llama: products on the cores beside the DRAM banks."""

    layers: int
    width: int
    heads: int
    shared: int
    hidden: int
    words: int
    attention: Any = ttnn.bfloat8_b
    mlp: Any = ttnn.bfloat4_b
    size: int = 128
    position: int = 128
    users: int = 1

    def product(self, x: Any, weight: Any, activation: Any = None) -> Any:
        deep, wide = weight.shape[-2] // 32, weight.shape[-1] // 32
        config = ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(
            in0_block_w=next(n for n in (8, 4, 2, 1) if deep % (8 * n) == 0 or n == 1), per_core_M=1,
            per_core_N=-(-wide // 32), fused_activation=activation,
        )  # fmt: skip
        return ttnn.linear(
            x, weight, program_config=config, memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
            compute_kernel_config=LOFI if weight.dtype == ttnn.bfloat4_b else HIFI2, dtype=ttnn.bfloat16,
        )  # fmt: skip

    def weight(self, device: Any, deep: int, wide: int, dtype: Any) -> Any:
        banks = device.dram_grid_size().x
        cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(banks - 1, 0))})
        shard = ttnn.ShardSpec(cores, (deep, -(-wide // 32 // banks) * 32), ttnn.ShardOrientation.ROW_MAJOR)
        place = ttnn.MemoryConfig(LAYOUT.WIDTH_SHARDED, ttnn.BufferType.DRAM, shard)
        return sent(device, deep, wide, dtype=dtype, place=place)

    def row(self) -> Any:
        """One row of tiles over 32 cores."""
        shape, grid = (32, self.width), ttnn.CoreGrid(x=8, y=4)
        return ttnn.create_sharded_memory_config(shape, grid, ttnn.ShardStrategy.WIDTH)

    def norm(self, x: Any, gain: Any) -> Any:
        config = ttnn.LayerNormShardedMultiCoreProgramConfig(
            compute_with_storage_grid_size=ttnn.CoreCoord(8, 4), subblock_w=1, block_h=1,
            block_w=self.width // 32 // 32, inplace=False,
        )  # fmt: skip
        return ttnn.rms_norm(x, epsilon=1e-5, weight=gain, program_config=config, memory_config=x.memory_config())

    def layer(self, device: Any) -> Recording:
        width, users, at = self.width, self.users, [self.position] * self.users
        fused = (self.heads + 2 * self.shared) * self.size
        qkv = self.weight(device, width, fused, self.attention)
        out = self.weight(device, self.heads * self.size, width, self.attention)
        gate, up = (self.weight(device, width, self.hidden, self.mlp) for _ in range(2))
        down = self.weight(device, self.hidden, width, ttnn.bfloat8_b if self.mlp == ttnn.bfloat8_b else self.mlp)
        gains = [sent(device, 1, width, dtype=ttnn.bfloat16) for _ in range(2)]
        caches = [sent(device, users, self.shared, 1024, self.size) for _ in range(2)]
        cos, sin = (sent(device, 1, users, 1, self.size, dtype=ttnn.bfloat16) for _ in range(2))
        swap = sent(device, 1, 1, 32, 32, dtype=ttnn.bfloat16)
        near, silu = ttnn.L1_MEMORY_CONFIG, ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
        row = self.row()
        x = sent(device, 1, 1, users, width, dtype=ttnn.bfloat16, place=row)
        with ttnn.record("llama layer", inputs=[x]) as recording:
            y = ttnn.to_memory_config(self.product(self.norm(x, gains[0]), qkv), near)
            q, k, v = ttnn.experimental.nlp_create_qkv_heads_decode(y, num_heads=self.heads, num_kv_heads=self.shared)
            q, k = (ttnn.experimental.rotary_embedding_llama(t, cos, sin, swap, is_decode_mode=True) for t in (q, k))
            for cache, new in zip(caches, (k, v)):
                ttnn.experimental.paged_update_cache(cache, new, update_idxs=at)
            y = ttnn.transformer.scaled_dot_product_attention_decode(q, *caches, cur_pos=at, memory_config=near)
            y = self.product(ttnn.experimental.nlp_concat_heads_decode(y, num_heads=self.heads), out)
            x = ttnn.add(x, ttnn.to_memory_config(y, row), memory_config=row)
            y = self.norm(x, gains[1])
            y = ttnn.multiply(self.product(y, gate, silu), self.product(y, up))
            ttnn.to_torch(ttnn.add(x, ttnn.to_memory_config(self.product(y, down), row), memory_config=row))
        return recording

    def head(self, device: Any) -> Recording:
        """The last norm, and a score for every word."""
        gain, words = (
            sent(device, 1, self.width, dtype=ttnn.bfloat16),
            self.weight(device, self.width, self.words, ttnn.bfloat8_b),
        )
        x = sent(device, 1, 1, self.users, self.width, dtype=ttnn.bfloat16, place=self.row())
        with ttnn.record("llama head", inputs=[x]) as recording:
            ttnn.to_torch(self.product(self.norm(x, gain), words))
        return recording


WIDE = {"attention": ttnn.bfloat16, "mlp": ttnn.bfloat8_b}
LLAMA_8B = {"layers": 32, "width": 4096, "heads": 32, "shared": 8, "hidden": 14336, "words": 128256}
LLAMA_3B = {"layers": 28, "width": 3072, "heads": 24, "shared": 8, "hidden": 8192, "words": 128256}
LLAMA_1B = {"layers": 16, "width": 2048, "heads": 32, "shared": 8, "hidden": 8192, "words": 128256, "size": 64}
DECODERS = {
    "llama-3.2-1b": Decoder(**LLAMA_1B), "llama-3.2-1b, wide": Decoder(**LLAMA_1B, **WIDE),
    "llama-3.2-3b": Decoder(**LLAMA_3B), "llama-3.2-3b, wide": Decoder(**LLAMA_3B, **WIDE),
    "llama-3.1-8b": Decoder(**LLAMA_8B), "llama-3.1-8b, wide": Decoder(**LLAMA_8B, **WIDE),
    "mistral-7b": Decoder(**LLAMA_8B | {"words": 32768}),
}  # fmt: skip
MODELS: dict[str, Callable[[Any], Recording]] = {
    "sentence_bert": bert,
    "vit-base": vit,
    "resnet50": resnet50,
    "llama-3.1-8b decode layer": Decoder(**LLAMA_8B, position=16).layer,
}
