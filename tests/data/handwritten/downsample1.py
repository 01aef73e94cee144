"""YOLOv4's first stage in ttnn: eight convolutions with mish, height-sharded, joined by a sharded concat. It runs on
real ttnn, and here through `import ttnn`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import ttnn

PLAN = [
    (3, 32, 3, 1), (32, 64, 3, 2), (64, 64, 1, 1), (64, 64, 1, 1), (64, 32, 1, 1), (32, 64, 3, 1), (64, 64, 1, 1),
    (128, 64, 1, 1),
]  # fmt: skip
"""Channels in and out, window, stride of each convolution."""


class Reference(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(a, b, k, s, k // 2) for a, b, k, s in PLAN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.step(1, self.step(0, x))
        left, right = self.step(2, split), self.step(3, split)
        x = self.step(5, self.step(4, right)) + right
        return self.step(7, torch.cat((self.step(6, x), left), 1))

    def step(self, number: int, x: torch.Tensor) -> torch.Tensor:
        return F.mish(self.convs[number](x))


class Convolution:
    def __init__(self, device, conv, size, keeps_input=False):
        self.device, self.conv, self.size = device, conv, size
        self.weight = ttnn.from_torch(conv.weight)  # float32, bias too: ttnn prepares them
        self.bias = ttnn.from_torch(conv.bias.reshape(1, 1, 1, -1))
        self.config = ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat8_b,
            shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
            deallocate_activation=not keeps_input,
            enable_act_double_buffer=True,
            output_layout=ttnn.TILE_LAYOUT,
        )
        self.compute = ttnn.init_device_compute_kernel_config(
            device.arch(), math_fidelity=ttnn.MathFidelity.LoFi, fp32_dest_acc_en=False, packer_l1_acc=False
        )

    def __call__(self, x):
        [y, [_, _], [self.weight, self.bias]] = ttnn.conv2d(
            input_tensor=x,
            weight_tensor=self.weight,
            bias_tensor=self.bias,
            in_channels=self.conv.in_channels,
            out_channels=self.conv.out_channels,
            device=self.device,
            kernel_size=self.conv.kernel_size,
            stride=self.conv.stride,
            padding=self.conv.padding,
            batch_size=1,
            input_height=self.size,
            input_width=self.size,
            conv_config=self.config,
            compute_config=self.compute,
            return_output_dim=True,
            return_weights_and_bias=True,
            dtype=ttnn.bfloat16,
        )
        return ttnn.mish(y)


class Downsample1:
    def __init__(self, device, reference, size):
        sizes = [size, size, *[size // 2] * 6]
        self.convs = [
            Convolution(device, conv, side, number in (2, 4))
            for number, (conv, side) in enumerate(zip(reference.convs, sizes))
        ]

    def __call__(self, x):
        first, second, to_left, to_right, narrow, wide, last, joined = self.convs
        split = second(first(x))
        left, right = to_left(split), to_right(split)
        x = right + wide(narrow(right))
        ttnn.deallocate(right)
        x = ttnn.to_layout(last(x), layout=ttnn.ROW_MAJOR_LAYOUT)
        left = ttnn.to_layout(left, layout=ttnn.ROW_MAJOR_LAYOUT)
        shard = x.memory_config().shard_spec
        both = ttnn.create_sharded_memory_config(
            [shard.shape[0], 2 * shard.shape[1]],
            core_grid=left.memory_config().shard_spec.grid,
            strategy=ttnn.ShardStrategy.HEIGHT,
            use_height_and_width_as_shard_shape=True,
        )
        x = ttnn.concat([x, left], dim=3, memory_config=both)
        ttnn.deallocate(left)
        return joined(x)


SIZE = 64


def test_downsample1():
    torch.manual_seed(0)
    device = ttnn.open_device(device_id=0, l1_small_size=16384)
    reference, image = Reference().eval(), torch.randn(1, 3, SIZE, SIZE)
    rows = ttnn.from_torch(image.permute(0, 2, 3, 1).reshape(1, 1, -1, 3), dtype=ttnn.bfloat16)
    x = ttnn.to_device(rows, device, memory_config=ttnn.L1_MEMORY_CONFIG)
    made = Downsample1(device, reference, SIZE)(x)
    assert made.memory_config().memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    found = ttnn.to_torch(made).float().reshape(1, SIZE // 2, SIZE // 2, 64).permute(0, 3, 1, 2)
    ttnn.close_device(device)
    with torch.no_grad():
        wanted = reference(image)
    assert torch.corrcoef(torch.stack([found.flatten(), wanted.flatten()]))[0, 1] > 0.99
