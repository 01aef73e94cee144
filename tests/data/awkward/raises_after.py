"""Raises once its model has run."""

import torch

model = torch.nn.Linear(2, 2)
model(torch.ones(1, 2))
raise ValueError("could not write the plot")
