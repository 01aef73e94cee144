"""The two calls of a decoder as modules that can be compiled: a prompt into the cache, and one token more."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn
from transformers.cache_utils import Cache

from proveout.generation.cache import (
    FULL,
    SLIDING,
    LayerShape,
    PagedPromptLayer,
    PagedTokenLayer,
    PromptLayer,
    TokenLayer,
    rows_of,
    sees,
)
from proveout.generation.pages import Paging
from proveout.generation.sampling import Sampling

MASK_OF_EACH = ("xglm",)
"""Models that take a mask for each prompt and none for all."""


class Kept(Protocol):
    """What a layer keeps: the two tensors of it for so many users and positions."""

    def cache(self, batch: int, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]: ...


class CacheStore(nn.Module):
    """The cache's tensors, which both calls write to: [users, heads, length, size], or [pages, heads, page, size]."""

    def __init__(
        self,
        layers: Sequence[Kept],
        batch: int,
        length: int,
        device: torch.device,
        paging: Paging | None = None,
    ) -> None:
        super().__init__()
        self.batch, self.paging = batch, paging
        self.positions = length
        """That a user's tokens may have."""
        self.length = length if paging is None else -(-length // paging.size) * paging.size
        """Of what a user sees of the cache, in whole pages."""
        self.num_layers = len(layers)
        for i, layer in enumerate(layers):
            shape = (batch, length) if paging is None else (paging.count + 1, paging.size)
            keys, values = layer.cache(*shape, device)
            self.register_buffer(f"keys_{i}", keys, persistent=False)
            self.register_buffer(f"values_{i}", values, persistent=False)

    @property
    def table_width(self) -> int:
        """Pages of one user's row of the page table."""
        return 0 if self.paging is None else self.length // self.paging.size

    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")) for i in range(self.num_layers)]


class Call(nn.Module):
    """What both calls have in common: the model, the cache, and how the model wants its masks."""

    def __init__(self, model: Any, store: CacheStore, layers: tuple[LayerShape, ...]) -> None:
        super().__init__()
        self.model, self.store = model, store
        config = model.config.get_text_config(decoder=True)
        self.by_type = hasattr(config, "layer_types")
        self.windows = {FULL if layer.window is None else SLIDING: layer.window for layer in layers}
        self.adds = config._attn_implementation == "eager"  # which adds its mask; the others take True and False
        self.each = config.model_type in MASK_OF_EACH
        self.alibi = bool(getattr(config, "alibi", False)) or config.model_type == "bloom"
        self.dtype = layers[0].dtype
        self.keeps = "logits_to_keep" in inspect.signature(model.forward).parameters

    def masks(self, queries: torch.Tensor, length: int) -> Any:
        """[batch or 1, 1, queries, 1] positions -> the model's masks over a cache of this length."""
        masks = {kind: self._mask(sees(queries, length, window)) for kind, window in self.windows.items()}
        return masks if self.by_type else next(iter(masks.values()))

    def _mask(self, seen: torch.Tensor) -> torch.Tensor:
        if not self.adds:
            return seen
        lowest = torch.finfo(self.dtype).min
        return torch.where(seen, torch.zeros((), dtype=self.dtype, device=seen.device), lowest)


class Prefill(Call):
    """Prompts of one padded length into the cache; gives the logits after each one's last token."""

    def __init__(self, model: Any, store: CacheStore, layers: tuple[LayerShape, ...], whole: bool) -> None:
        super().__init__(model, store, layers)
        self.whole = whole
        """Whether the prompts are those of all users, in order; otherwise their slots are told."""

    def forward(self, ids: torch.Tensor, last: torch.Tensor, where: torch.Tensor | None = None) -> torch.Tensor:
        """ids [prompts, length], each one's last place [prompts], their slots [prompts] or their rows of the page
        table -> [prompts, vocabulary]."""
        prompts, length = ids.shape
        positions = torch.arange(length, device=ids.device)
        # What pads a prompt to whole pages may have no position of its own.
        places = positions.clamp(max=self.store.positions - 1) if length > self.store.positions else positions
        cache = Cache(layers=self._layers(length, where))
        queries = positions[None, None, :, None].expand(prompts if self.each else 1, 1, length, 1)
        masks = None if self.alibi else self.masks(queries, length)
        if self.alibi:
            masks = torch.ones(prompts, length, dtype=torch.long, device=ids.device)
        extra = {"logits_to_keep": last} if self.keeps else {}
        logits = self.model(
            input_ids=ids,
            attention_mask=masks,
            position_ids=places[None].expand(prompts, length),
            past_key_values=cache,
            use_cache=True,
            **extra,
        ).logits
        rows = torch.arange(prompts, device=ids.device)
        # Kept for every prompt are the last places of all: a few rows more than needed, and one call for all models.
        picked: torch.Tensor = (
            logits[:, 0] if self.keeps and prompts == 1 else logits[rows, rows if self.keeps else last]
        )
        return picked

    def _layers(self, length: int, where: torch.Tensor | None) -> list[Any]:
        paging, pairs = self.store.paging, self.store.pairs()
        if paging is None:
            return [PromptLayer(keys, values, None if self.whole else where, length) for keys, values in pairs]
        assert where is not None
        pages = where[:, : length // paging.size].long().clamp(0, paging.nobodys)
        return [PagedPromptLayer(keys, values, pages, length) for keys, values in pairs]


class Decode(Call):
    """One token of each user at its position; gives the logits for the next one, or with `sampling` that one itself."""

    def __init__(
        self, model: Any, store: CacheStore, layers: tuple[LayerShape, ...], sampling: Sampling | None = None
    ) -> None:
        super().__init__(model, store, layers)
        self.sampling = sampling

    def forward(
        self,
        token: torch.Tensor,
        position: torch.Tensor,
        table: torch.Tensor | None = None,
        uniform: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """token [batch], position [batch], with pages each user's [batch, pages of a user], to draw a number for each
        user [batch, 1] -> [batch, vocabulary], or [batch] tokens."""
        length = self.store.length
        cache = Cache(layers=self._layers(position, table))
        if self.alibi:
            masks: Any = sees(position[:, None], length, None).long()
        else:
            masks = self.masks(position[:, None, None, None], length)
        logits: torch.Tensor = self.model(
            input_ids=token[:, None],
            attention_mask=masks,
            position_ids=position[:, None],
            past_key_values=cache,
            use_cache=True,
        ).logits
        last = logits[:, -1]
        return last if self.sampling is None else self.sampling.choose(last, uniform)

    def _layers(self, position: torch.Tensor, table: torch.Tensor | None) -> list[Any]:
        paging, pairs = self.store.paging, self.store.pairs()
        if paging is None:
            return [TokenLayer(keys, values, position) for keys, values in pairs]
        assert table is not None
        pages = table.long().clamp(0, paging.nobodys)  # proves that what is computed from it fits 32 bits
        heads = dict.fromkeys(keys.shape[1] for keys, _ in pairs)  # layers of as many heads share where rows lie
        rows = {n: rows_of(pages, position, n, paging.size) for n in heads}
        return [PagedTokenLayer(keys, values, table, rows[keys.shape[1]]) for keys, values in pairs]
