"""Imports relatively, as `python -m package.relative` allows."""

import torch

from .parts import make

make()(torch.ones(1, 2))
