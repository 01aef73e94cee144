"""What `relative.py` takes its model from."""

from torch import nn


def make() -> nn.Module:
    return nn.Linear(2, 3)
