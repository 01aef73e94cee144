"""The CNN behind the digits task: 32 x 32 pixels in three channels, ten digits."""

from __future__ import annotations

import torch
from torch import nn


class DigitNet(nn.Module):
    def __init__(self, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, kernel_size=3, padding=1)
        self.second = nn.Conv2d(width, 2 * width, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.hidden = nn.Linear(2 * width * 8 * 8, 128)
        self.head = nn.Linear(128, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.first(image)))
        x = self.pool(torch.relu(self.second(x)))
        return self.head(torch.relu(self.hidden(x.flatten(1))))
