"""One decoder layer of a language model, called as prefill and decoding call it: with keys and values in and out."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

ONE_LAYER = dict(num_hidden_layers=1, vocab_size=8, pad_token_id=0, bos_token_id=1, eos_token_id=2)
"""For a config: only the first layer is wanted, so the embeddings, which are dropped, need no size."""


class DecoderLayer(nn.Module):
    """The first layer of a model, with its rotary positions (`kind`: what they are asked for beside the positions)."""

    def __init__(self, model: PreTrainedModel, **kind: Any) -> None:
        super().__init__()
        self.layer = model.layers[0]
        self.rotary = model.rotary_emb
        self.config = model.config
        self.kind = kind

    def forward(
        self, hidden_BSW: Tensor, keys_BHPD: Tensor | None = None, values_BHPD: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the layer makes of S new tokens after P past ones, and the keys and values of all of them."""
        cache = DynamicCache()
        if keys_BHPD is not None:
            cache.update(keys_BHPD, values_BHPD, layer_idx=0)
        num_past, num_new = cache.get_seq_length(), hidden_BSW.shape[1]
        positions = torch.arange(num_past, num_past + num_new, device=hidden_BSW.device).unsqueeze(0)
        hidden_BSW = self.layer(
            hidden_BSW,
            attention_mask=self._mask(num_past, num_new, hidden_BSW.device),
            position_ids=positions,
            past_key_values=cache,
            position_embeddings=self.rotary(hidden_BSW, positions, **self.kind),
        )
        return hidden_BSW, cache.layers[0].keys, cache.layers[0].values

    def _mask(self, num_past: int, num_new: int, device: torch.device) -> Tensor | None:
        """Which tokens each new one sees: none of the future, nothing beyond its window. None where that is implied."""
        num_all = num_past + num_new
        window = getattr(self.config, "sliding_window", None) or num_all
        implied = self.config._attn_implementation != "eager" or num_new == 1
        if implied and num_all <= window:
            return None
        positions = torch.arange(num_all, device=device)
        distance = positions[num_past:].unsqueeze(1) - positions
        seen = (distance >= 0) & (distance < window)
        return torch.zeros(num_new, num_all, device=device).masked_fill(~seen, float("-inf"))[None, None]
