"""Three models: in a list, anonymous, and in a variable named `module`; one is built and never called."""

import torch
from torch import nn

models = [nn.Linear(3, 5), nn.Linear(3, 6)]
for model in models:
    model(torch.ones(1, 3))
nn.Linear(3, 3)(torch.ones(2, 3))
module = nn.Conv1d(1, 1, 3)
module(torch.ones(1, 1, 8))
never = nn.Linear(9, 9)
