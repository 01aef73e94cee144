"""Raises before its model is called."""

import torch

model = torch.nn.Linear(2, 2)
raise ValueError("no data to be found")
