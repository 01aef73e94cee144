# labels: name::yolov4 author::alexey-bochkovskiy task::object-detection domain::vision license::apache-2.0
"""YOLOv4 for the 80 classes of COCO, 64.4 M parameters: five CSP stages (down1 .. down5), a neck and a head.

Written from the published network description, in the nine modules of Tenstorrent's bring-up guide: Resblock,
DownSample1 .. DownSample5, Neck, Head and Yolov4. Each output holds, for a grid, 3 boxes x (4 + 1 + 80) numbers a cell.
Source: https://github.com/AlexeyAB/darknet/blob/master/cfg/yolov4.cfg (608 x 608 pixels)
Paper: https://arxiv.org/abs/2004.10934
With --small the image is 64 x 64 and every layer has an eighth of its channels.
"""

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

BOXES, CLASSES = 3, 80
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, act: type[nn.Module] = nn.Mish) -> nn.Sequential:
    """Convolution, batch normalisation and activation: Mish in the body, leaky ReLU after it."""
    activation = nn.LeakyReLU(0.1) if act is nn.LeakyReLU else act()
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), activation)


def leaky(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return conv(inputs, outputs, kernel, stride, act=nn.LeakyReLU)


def five(inputs: int, width: int) -> nn.Sequential:
    """Five convolutions, 1 x 1 and 3 x 3 in turn, that end with `width` channels."""
    sizes = [
        (inputs, width, 1),
        (width, 2 * width, 3),
        (2 * width, width, 1),
        (width, 2 * width, 3),
        (2 * width, width, 1),
    ]
    return nn.Sequential(*(leaky(*size) for size in sizes))


class Resblock(nn.Module):
    def __init__(self, width: int, hidden: int, blocks: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(conv(width, hidden, 1), conv(hidden, width, 3)) for _ in range(blocks)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


class DownSample(nn.Module):
    """A cross-stage partial stage: half the resolution, then two branches, one of which holds the residual blocks."""

    def __init__(self, inputs: int, outputs: int, branch: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.down = conv(inputs, outputs, 3, stride=2)
        self.shortcut = conv(outputs, branch, 1)
        self.enter = conv(outputs, branch, 1)
        self.resblock = Resblock(branch, hidden, blocks)
        self.leave = conv(branch, branch, 1)
        self.join = conv(2 * branch, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(x)
        deep = self.leave(self.resblock(self.enter(x)))
        return self.join(torch.cat([deep, self.shortcut(x)], dim=1))


class DownSample1(DownSample):
    def __init__(self, base: int) -> None:
        super().__init__(base, 2 * base, branch=2 * base, hidden=base, blocks=1)
        self.stem = conv(3, base, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.stem(x))


class DownSample2(DownSample):
    def __init__(self, base: int) -> None:
        super().__init__(2 * base, 4 * base, branch=2 * base, hidden=2 * base, blocks=2)


class DownSample3(DownSample):
    def __init__(self, base: int) -> None:
        super().__init__(4 * base, 8 * base, branch=4 * base, hidden=4 * base, blocks=8)


class DownSample4(DownSample):
    def __init__(self, base: int) -> None:
        super().__init__(8 * base, 16 * base, branch=8 * base, hidden=8 * base, blocks=8)


class DownSample5(DownSample):
    def __init__(self, base: int) -> None:
        super().__init__(16 * base, 32 * base, branch=16 * base, hidden=16 * base, blocks=4)


class Neck(nn.Module):
    """Spatial pyramid pooling over the coarsest features, then two steps up to finer ones."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(
            leaky(32 * base, 16 * base, 1), leaky(16 * base, 32 * base, 3), leaky(32 * base, 16 * base, 1)
        )
        self.pools = nn.ModuleList(nn.MaxPool2d(size, stride=1, padding=size // 2) for size in (13, 9, 5))
        self.coarse = nn.Sequential(
            leaky(64 * base, 16 * base, 1), leaky(16 * base, 32 * base, 3), leaky(32 * base, 16 * base, 1)
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.narrow4, self.lateral4, self.middle = (
            leaky(16 * base, 8 * base, 1),
            leaky(16 * base, 8 * base, 1),
            five(16 * base, 8 * base),
        )
        self.narrow3, self.lateral3, self.fine = (
            leaky(8 * base, 4 * base, 1),
            leaky(8 * base, 4 * base, 1),
            five(8 * base, 4 * base),
        )

    def forward(self, down3: torch.Tensor, down4: torch.Tensor, down5: torch.Tensor) -> Three:
        x = self.enter(down5)
        coarse = self.coarse(torch.cat([*(pool(x) for pool in self.pools), x], dim=1))
        middle = self.middle(torch.cat([self.lateral4(down4), self.up(self.narrow4(coarse))], dim=1))
        fine = self.fine(torch.cat([self.lateral3(down3), self.up(self.narrow3(middle))], dim=1))
        return fine, middle, coarse


class Head(nn.Module):
    """Two steps down again, and a prediction at each of three resolutions."""

    def __init__(self, base: int, outputs: int = BOXES * (4 + 1 + CLASSES)) -> None:
        super().__init__()
        self.predict3 = nn.Sequential(leaky(4 * base, 8 * base, 3), nn.Conv2d(8 * base, outputs, 1))
        self.down4, self.merge4 = leaky(4 * base, 8 * base, 3, stride=2), five(16 * base, 8 * base)
        self.predict4 = nn.Sequential(leaky(8 * base, 16 * base, 3), nn.Conv2d(16 * base, outputs, 1))
        self.down5, self.merge5 = leaky(8 * base, 16 * base, 3, stride=2), five(32 * base, 16 * base)
        self.predict5 = nn.Sequential(leaky(16 * base, 32 * base, 3), nn.Conv2d(32 * base, outputs, 1))

    def forward(self, fine: torch.Tensor, middle: torch.Tensor, coarse: torch.Tensor) -> Three:
        middle = self.merge4(torch.cat([self.down4(fine), middle], dim=1))
        coarse = self.merge5(torch.cat([self.down5(middle), coarse], dim=1))
        return self.predict3(fine), self.predict4(middle), self.predict5(coarse)


class Yolov4(nn.Module):
    def __init__(self, base: int = 32) -> None:
        super().__init__()
        self.down1, self.down2, self.down3 = DownSample1(base), DownSample2(base), DownSample3(base)
        self.down4, self.down5 = DownSample4(base), DownSample5(base)
        self.neck, self.head = Neck(base), Head(base)

    def forward(self, image: torch.Tensor) -> Three:
        down3 = self.down3(self.down2(self.down1(image)))
        down4 = self.down4(down3)
        return self.head(*self.neck(down3, down4, self.down5(down4)))


args = parse(["batch_size"])
base, size = (4, 64) if args.small else (32, 608)

model = Yolov4(base).eval()
image = torch.randn(args.batch_size, 3, size, size)

with torch.no_grad():
    model(image)
