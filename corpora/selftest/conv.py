# labels: name::conv author::proveout test_group::selftest task::image-classification domain::vision license::apache-2.0
"""A small convolutional classifier: convolution, batch normalisation, ReLU and pooling, twice, and a head."""

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

batch_size, num_channels = parse(["batch_size", "num_channels"])


class Conv(nn.Module):
    def __init__(self, channels: int, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(image).flatten(1))


model = Conv(num_channels).eval()
image = torch.randn(batch_size, num_channels, 32, 32)

with torch.no_grad():
    model(image)
