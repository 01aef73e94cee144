"""A decoder with its cache as one module of two calls: a padded prompt, and one token more."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from proveout.generation.cache import layer_shapes
from proveout.generation.forwards import CacheStore, Decode, Prefill
from proveout.generation.twin import twin_of

TILE = 32


class Cached(nn.Module):
    """One user's generation: `ids` [1, n] with n > 1 are a prompt and its padding, n = 1 the next token; `last` [1] is
    the place of the last token that counts. Gives the logits [1, vocabulary] of the next one."""

    def __init__(self, model: Any, length: int) -> None:
        super().__init__()
        self.length = -(-length // TILE) * TILE
        model = twin_of(model, self.length)
        layers = layer_shapes(model)
        store = CacheStore(layers, 1, self.length, next(model.parameters()).device)
        self.prefill = Prefill(model, store, layers, True)
        self.decode = Decode(model, store, layers)

    def forward(self, ids: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.prefill(ids, last) if ids.shape[1] > 1 else self.decode(ids[:, 0], last)
        return logits


def prompt_call(tokens: list[int], longest: int, filler: int = 0) -> dict[str, torch.Tensor]:
    """The call for a prompt, padded to a power of two of at least a tile; what pads it is overwritten unseen."""
    length = min(max(TILE, 1 << (len(tokens) - 1).bit_length()), longest)
    ids = torch.full((1, length), filler)
    ids[0, : len(tokens)] = torch.tensor(tokens)
    return {"ids": ids, "last": torch.tensor([len(tokens) - 1])}


def token_call(token: int, position: int) -> dict[str, torch.Tensor]:
    return {"ids": torch.tensor([[token]]), "last": torch.tensor([position])}
