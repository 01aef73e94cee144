"""A random graph of the size of Cora, the citation network that graph convolutions are measured on, and deep stacks.

Cora has 2,708 papers with 1,433 words each, and 5,278 citations, each an edge both ways:
https://arxiv.org/abs/1603.08861
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn


def citations(in_channels: int, small: bool) -> tuple[Tensor, Tensor]:
    """Features of the nodes and the edges of a graph as large as Cora, or with 64 nodes and 128 citations."""
    num_nodes, num_citations = (64, 128) if small else (2708, 5278)
    ends = torch.randint(num_nodes, (2, num_citations))
    x = torch.rand(num_nodes, in_channels)
    return x, torch.cat([ends, ends.flip(0)], dim=1)


class Stack(nn.Module):
    """`num_layers` graph convolutions with a ReLU between them: in_channels, then `hidden`, at last out_channels."""

    def __init__(
        self, convolution: Callable[[int, int], nn.Module], num_layers: int, sizes: tuple[int, int, int]
    ) -> None:
        super().__init__()
        first, hidden, last = sizes
        widths = [first, *[hidden] * (num_layers - 1), last]
        self.layers = nn.ModuleList(convolution(inputs, outputs) for inputs, outputs in pairwise(widths))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x, edge_index).relu()
        return self.layers[-1](x, edge_index)
