# labels: name::attention author::proveout test_group::selftest task::text-generation domain::nlp license::apache-2.0
"""One transformer encoder block, written out: embeddings, softmax attention, feed-forward."""

import math

from proveout.parser import parse

import torch
from torch import nn

torch.manual_seed(0)

batch_size, max_seq_length = parse(["batch_size", "max_seq_length"])

VOCABULARY = 1000


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x_BSW: torch.Tensor) -> torch.Tensor:
        batch, length, width = x_BSW.shape
        split = (batch, length, self.heads, width // self.heads)
        q_BHSD, k_BHSD, v_BHSD = (part.view(split).transpose(1, 2) for part in self.qkv(x_BSW).chunk(3, dim=-1))
        scores_BHSS = q_BHSD @ k_BHSD.transpose(-2, -1) / math.sqrt(width // self.heads)
        mixed_BHSD = scores_BHSS.softmax(dim=-1) @ v_BHSD
        return self.out(mixed_BHSD.transpose(1, 2).reshape(batch, length, width))


class Encoder(nn.Module):
    def __init__(self, length: int, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        self.attention = Attention(width, heads)
        self.norm_1 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm_2 = nn.LayerNorm(width)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(input_ids) + self.positions.weight[: input_ids.shape[1]]
        x = self.norm_1(x + self.attention(x))
        return self.norm_2(x + self.feed_forward(x))


model = Encoder(max_seq_length).eval()
input_ids = torch.randint(VOCABULARY, (batch_size, max_seq_length))

with torch.no_grad():
    model(input_ids=input_ids)
