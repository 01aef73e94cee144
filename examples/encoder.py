"""Two encoder layers of BERT-Base's size that label each of 64 tokens, as for names: what `make demo` brings up."""

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    """Attention and a feed-forward part, each with a residual connection and a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.attended, self.done = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:  # [batch, heads, length, width / heads]
            return y.view(batch, length, self.heads, -1).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)))
        x = self.attended(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return self.done(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, width: int = 768, heads: int = 12, layers: int = 2, labels: int = 9) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, labels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(tokens))


torch.manual_seed(0)
model = Encoder().eval()
with torch.no_grad():
    model(torch.randn(1, 64, 768))
