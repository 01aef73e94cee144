"""One model, called again with new shapes and with old ones."""

import torch

model = torch.nn.Linear(8, 8)
for rows in (1, 2, 1, 2, 2):
    model(torch.ones(rows, 8))
