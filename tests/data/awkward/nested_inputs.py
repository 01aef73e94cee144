"""Keyword arguments, tuples in dictionaries, a dataclass, and things that are no tensors."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Batch:
    ids: torch.Tensor
    extra: dict


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)

    def forward(self, batch, *, mask=None, states=(), scale=1.0, name=""):
        out = self.embed(batch.ids) * scale * mask.unsqueeze(-1)
        return {"out": out + states[0]["h"], "name": name}


batch = Batch(torch.zeros(2, 3, dtype=torch.int64), {"unused": None})
Net()(batch, mask=torch.ones(2, 3), states=({"h": torch.zeros(4)},), scale=0.5, name="x")
