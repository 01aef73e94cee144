"""ResNet-50 as tt-metal's developers place and cut it."""

from __future__ import annotations

from typing import Any

from pieces import LAYOUT, LOFI, sent, shell

from proveout import ttnn
from proveout.ttnn import Recording


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
