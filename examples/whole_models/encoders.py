"""ViT-Base and Sentence-BERT, as tt-metal's developers place and cut them."""

from __future__ import annotations

from typing import Any

from pieces import HIFI2, HIFI4, NEAR, batched, blocks, gridded, heights, normed, sent, words

from proveout import ttnn
from proveout.ttnn import Recording

WIDTH, HEADS, LAYERS = 768, 12, 12
GELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU)
BITS8 = {"dtype": ttnn.bfloat8_b}


def _weights(device: Any, dtype: Any, bias: Any, **shapes: tuple[int, int]) -> dict[str, tuple[Any, Any]]:
    return {
        name: (sent(device, *shape, dtype=dtype), sent(device, 1, shape[1], dtype=bias))
        for name, shape in shapes.items()
    }


def _norms(device: Any, *names: str) -> dict[str, tuple[Any, Any]]:
    return {name: tuple(sent(device, 1, WIDTH, dtype=ttnn.bfloat16) for _ in range(2)) for name in names}


SHAPES = {
    "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
}  # fmt: skip


# ---- ViT -------------------------------------------------------------------------------------------------------------


def vit(device: Any) -> Recording:
    """Images of 224 pixels, 197 positions filled up to 224, all in 8 bits. On Wormhole the batch is 8: products and
    norms on 64 cores, heads on 48; on Blackhole it is 10, on 120 cores."""
    small = device.spec.grid[1] < 10
    batch, tall, grid, few = (8, 7, (8, 8), (6, 8)) if small else (10, 7, (12, 10), (12, 10))
    wide = WIDTH // 32 // grid[0]
    each = HEADS * tall // few[0]
    rows, length = batch * 224, 224
    near, split = blocks(rows, WIDTH, grid), heights(batch * HEADS * length, WIDTH // HEADS, few)
    parts = _weights(device, ttnn.bfloat8_b, ttnn.bfloat8_b, **SHAPES, patches=(1024, WIDTH), last=(WIDTH, 1152))
    parts |= _norms(device, "before", "after", "end")
    norm = {"program_config": normed(grid, tall, wide, wide), "memory_config": near, "compute_kernel_config": HIFI2}

    def product(x: Any, name: str, n: int, k: int, subblock: int, activation: Any = None) -> Any:
        config = gridded(grid, tall, n, k, (1, subblock), activation)
        weight, bias = parts[name]
        place = blocks(rows, weight.shape[-1], grid)
        return ttnn.linear(x, weight, bias=bias, program_config=config, memory_config=place, **BITS8)

    def attention(x: Any) -> Any:
        fused = ttnn.reshard(product(x, "qkv", 3 * wide, wide, wide), blocks(rows, 3 * WIDTH, few))
        fused = ttnn.reshape(fused, (batch, length, 3 * WIDTH))
        q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(
            fused, num_heads=HEADS, transpose_key=True, memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG
        )
        scores = ttnn.matmul(
            q, k, program_config=batched(few, each, tall, 2, tall),
            memory_config=heights(batch * HEADS * length, length, few), **BITS8,
        )  # fmt: skip
        scores = ttnn.softmax(ttnn.multiply(scores, 0.125, memory_config=scores.memory_config()), dim=-1)
        context = ttnn.matmul(scores, v, program_config=batched(few, each, 2, tall, 2), memory_config=split, **BITS8)
        joined = ttnn.transformer.concatenate_heads(context, memory_config=blocks(rows, WIDTH, few))
        joined = ttnn.reshape(joined, (1, 1, rows, WIDTH))
        return product(ttnn.reshard(joined, near) if few != grid else joined, "out", wide, wide, wide)

    image = sent(device, 1, 1, batch * 196, 1024, place=NEAR)
    first, places = sent(device, batch, 1, WIDTH), sent(device, batch, 224, WIDTH)
    with ttnn.record("vit", inputs=[image]) as recording:
        weight, bias = parts["patches"]
        y = ttnn.linear(
            image,
            weight,
            bias=bias,
            memory_config=NEAR,
            dtype=ttnn.bfloat16,
            core_grid=ttnn.CoreGrid(x=few[0], y=few[1]),
        )
        y = ttnn.reshape(ttnn.to_layout(y, ttnn.ROW_MAJOR_LAYOUT), (batch, 196, WIDTH))
        y = ttnn.concat([ttnn.to_layout(first, ttnn.ROW_MAJOR_LAYOUT, dtype=ttnn.bfloat16), y], -2, memory_config=NEAR)
        y = ttnn.pad(y, [(0, 0), (0, 27), (0, 0)], 0.0)
        y = ttnn.add(ttnn.to_layout(y, ttnn.TILE_LAYOUT), places, memory_config=NEAR, **BITS8)
        y = ttnn.to_memory_config(ttnn.reshape(y, (1, 1, rows, WIDTH)), near)
        for _ in range(LAYERS):
            x = ttnn.layer_norm(y, weight=parts["before"][0], bias=parts["before"][1], **norm)
            y = ttnn.add(attention(x), y, memory_config=near, **BITS8)
            x = ttnn.layer_norm(y, weight=parts["after"][0], bias=parts["after"][1], **norm)
            x = product(x, "up", 4 * wide, wide, 2 * wide, GELU)
            y = ttnn.add(product(x, "down", wide, 4 * wide, wide), y, memory_config=near, **BITS8)
        y = ttnn.layer_norm(y, weight=parts["end"][0], bias=parts["end"][1], **norm)
        y = ttnn.reshard(y, blocks(rows, WIDTH, few)) if few != grid else y
        classes = 1152 // 32 // few[0]
        y = ttnn.linear(
            y, parts["last"][0], bias=parts["last"][1], memory_config=blocks(rows, 1152, few),
            program_config=gridded(few, tall, classes, WIDTH // 64 // few[0], (1, min(classes, 6))), **BITS8,
        )  # fmt: skip
        ttnn.to_torch(y)
    return recording


# ---- Sentence-BERT ---------------------------------------------------------------------------------------------------


def bert(device: Any) -> Recording:
    """8 sentences of 384 tokens on 48 cores of either chip; activations and the weights of queries, keys and values in
    8 bits, other weights in bfloat16. The config of the last product of a layer gives work to 16 cores only."""
    batch, length, grid = 8, 384, (6, 8)
    rows = batch * length
    near, split = blocks(rows, WIDTH, grid), heights(batch * HEADS * length, WIDTH // HEADS, grid)
    narrow = blocks(rows, WIDTH, (2, 8))
    parts = _weights(device, ttnn.bfloat8_b, ttnn.bfloat8_b, qkv=SHAPES["qkv"])
    parts |= _weights(device, ttnn.bfloat16, ttnn.bfloat16, **{k: v for k, v in SHAPES.items() if k != "qkv"})
    parts |= _norms(device, "start", "attention", "end")
    norm = {"program_config": normed(grid, 12, 4, 4), "memory_config": near, "compute_kernel_config": HIFI4}
    tables = [sent(device, n, WIDTH, dtype=ttnn.bfloat16) for n in (30522, 2, 512)]
    tables = [ttnn.to_layout(t, ttnn.ROW_MAJOR_LAYOUT) for t in tables]
    numbers = [words(device, batch, length, place=NEAR) for _ in tables]
    mask = sent(device, batch, 1, 1, length, dtype=ttnn.bfloat16, place=NEAR)

    def product(x: Any, name: str, n: int, subblock: tuple[int, int], place: Any, **more: Any) -> Any:
        weight, bias = parts[name]
        config = gridded(grid, 12, n, 4, subblock, more.pop("activation", None))
        return ttnn.linear(x, weight, bias=bias, program_config=config, memory_config=place, **BITS8, **more)

    def normalised(x: Any, name: str, residual: Any = None) -> Any:
        weight, bias = parts[name]
        more = {} if residual is None else {"residual_input_tensor": residual}
        return ttnn.layer_norm(x, weight=weight, bias=bias, epsilon=1e-12, **more, **norm)

    with ttnn.record("bert", inputs=numbers) as recording:
        looked_up = [ttnn.embedding(n, t, layout=ttnn.TILE_LAYOUT, memory_config=NEAR) for n, t in zip(numbers, tables)]
        y = ttnn.add(ttnn.add(looked_up[0], looked_up[1]), looked_up[2])
        y = normalised(ttnn.to_memory_config(ttnn.reshape(y, (1, 1, rows, WIDTH)), near, **BITS8), "start")
        for _ in range(LAYERS):
            fused = product(y, "qkv", 12, (1, 6), blocks(rows, 3 * WIDTH, grid))
            q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(
                ttnn.reshape(fused, (batch, length, 3 * WIDTH)),
                num_heads=HEADS,
                transpose_key=True,
                memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG,
            )
            ttnn.deallocate(fused)
            scores = ttnn.matmul(
                q, k, program_config=batched(grid, 24, 12, 2, 6),
                memory_config=heights(batch * HEADS * length, length, grid), **BITS8,
            )  # fmt: skip
            scores = ttnn.scale_mask_softmax(scores, 0.125, mask)
            context = ttnn.matmul(scores, v, memory_config=split, **BITS8)
            for used in (q, k, v, scores):
                ttnn.deallocate(used)
            joined = ttnn.transformer.concatenate_heads(context, memory_config=near)
            ttnn.deallocate(context)
            x = product(ttnn.reshape(joined, (1, 1, rows, WIDTH)), "out", 4, (2, 4), near)
            y = normalised(x, "attention", y)
            ttnn.deallocate(x)
            hidden = product(
                y, "up", 16, (1, 8), blocks(rows, 4 * WIDTH, grid), activation=GELU, compute_kernel_config=HIFI2
            )
            x = product(hidden, "down", 12, (1, 6), narrow)
            ttnn.deallocate(hidden)
            y = normalised(ttnn.reshard(x, near), "end", y)
            ttnn.deallocate(x)
        y = ttnn.reshape(ttnn.sharded_to_interleaved(y, NEAR), (batch, length, WIDTH))
        ttnn.to_torch(ttnn.mean(y, dim=1))
    return recording
