"""The keys and values of every layer for a fixed number of users, each at a position of its own.

transformers' `StaticCache` has one length for the whole batch. Here a user's tokens lie at 0, 1, 2, … whatever the
others do, which is what ttnn's decode kernels take (a position per user) and what lets users come and go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from transformers.cache_utils import Cache, CacheLayerMixin, get_layer_types_and_kwargs

from proveout.errors import UsageError

FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class LayerShape:
    """What one layer keeps for a token."""

    heads: int
    key_size: int
    value_size: int
    dtype: torch.dtype
    window: int | None = None
    """How many positions back it looks; None: all."""

    def cache(self, batch: int, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (
            torch.zeros(batch, self.heads, length, size, dtype=self.dtype, device=device)
            for size in (self.key_size, self.value_size)
        )
        return keys, values

    def nbytes(self, batch: int, length: int) -> int:
        return batch * self.heads * length * (self.key_size + self.value_size) * self.dtype.itemsize


class _Layer(CacheLayerMixin):
    """A layer of the cache as one call sees it."""

    is_compileable = True
    is_sliding = False
    max_length: int

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Its tensors are there already."""

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.max_length, 0

    def get_max_length(self) -> int:
        return self.max_length


def is_slot(slot: torch.Tensor, users: int) -> torch.Tensor:
    """Which of the users this one is [users]: in 32 bits, in which a chip compares."""
    return torch.arange(users, dtype=torch.int32, device=slot.device) == slot.to(torch.int32)


class PromptLayer(_Layer):
    """Takes a prompt's keys and values into the first positions of its users; the prompt sees itself alone."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor | None, length: int) -> None:
        super().__init__()
        self.kept, self.slots, self.max_length = (keys, values), slots, length

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for kept, new in zip(self.kept, (key_states, value_states)):
            region = kept[:, :, : new.shape[2]]
            if self.slots is None:
                region.copy_(new)
            elif new.shape[0] == 1:  # a choice by user costs a pass over the cache; a scatter, a hundred times that
                mine = is_slot(self.slots, kept.shape[0])
                region.copy_(torch.where(mine[:, None, None, None], new, region))
            else:
                region.index_copy_(0, self.slots, new)
        return key_states, value_states

    def get_seq_length(self) -> int:
        return 0


class TokenLayer(_Layer):
    """Takes one token's keys and values of each user at the user's position; the token sees all up to there."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor) -> None:
        super().__init__()
        self.kept, self.position, self.max_length = (keys, values), position, keys.shape[2]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for kept, new in zip(self.kept, (key_states, value_states)):
            kept.scatter_(2, self.position[:, None, None, None].expand_as(new), new)
        return self.kept

    def get_seq_length(self) -> int:
        return self.max_length - 1  # nothing is later; what is not there yet is masked


class PagedPromptLayer(_Layer):
    """Takes prompts into the pages [prompts, pages of a prompt] that are named; a prompt fills its pages."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, pages: torch.Tensor, length: int) -> None:
        super().__init__()
        self.kept, self.pages, self.max_length = (keys, values), pages, length

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for kept, new in zip(self.kept, (key_states, value_states)):
            prompts, heads, length, size = new.shape
            apart = new.reshape(prompts, heads, length // kept.shape[2], kept.shape[2], size).transpose(1, 2)
            kept.index_copy_(0, self.pages.reshape(-1), apart.reshape(-1, *kept.shape[1:]))
        return key_states, value_states

    def get_seq_length(self) -> int:
        return 0


class PagedTokenLayer(_Layer):
    """Takes one token of each user into its row of a page; the token sees its user's pages in their order."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, table: torch.Tensor, rows: torch.Tensor) -> None:
        super().__init__()
        self.kept, self.table, self.rows = (keys, values), table, rows
        self.max_length = table.shape[1] * keys.shape[2]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (self._put(kept, new) for kept, new in zip(self.kept, (key_states, value_states)))
        return keys, values

    def _put(self, kept: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        pages, heads, page, size = kept.shape
        users = len(self.table)
        kept.view(-1, size).scatter_(0, self.rows.expand(-1, size), new.reshape(users * heads, size))
        held = torch.nn.functional.embedding(self.table, kept.view(pages, heads * page * size))
        apart = held.view(users, -1, heads, page, size).transpose(1, 2)
        return apart.reshape(users, heads, self.max_length, size)

    def get_seq_length(self) -> int:
        return self.max_length - 1


def rows_of(table: torch.Tensor, position: torch.Tensor, heads: int, page: int) -> torch.Tensor:
    """[users * heads, 1]: where each user's row of each head lies in pages [pages, heads, page, size] made flat."""
    places = torch.arange(page, device=table.device)
    starts = (table[:, :, None] * (heads * page) + places).flatten(1)  # of every position, for the first head
    start = starts.gather(1, position[:, None])
    return (start + torch.arange(0, heads * page, page, device=table.device)).reshape(-1, 1)


class _Noting(_Layer):
    """Keeps nothing but the shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: tuple[torch.Tensor, torch.Tensor] | None = None
        self.max_length = 1

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen = key_states, value_states
        return self.seen

    def get_seq_length(self) -> int:
        return 0


def layer_shapes(model: Any) -> tuple[LayerShape, ...]:
    """What each layer of a model keeps, told by a call on tensors without data."""
    config = model.config.get_text_config(decoder=True)
    kinds, per_layer = get_layer_types_and_kwargs(config)
    options = (
        [per_layer] * len(kinds) if isinstance(per_layer, dict) else per_layer
    )  # one for all layers before transformers 5.20
    other = sorted({kind for kind in kinds if kind not in (FULL, SLIDING)})
    if other:
        raise UsageError(
            f"{type(model).__name__} has layers of {', '.join(other)}: a cache is for full and sliding attention."
        )
    layers = [_Noting() for _ in kinds]
    parameter = next(model.parameters())
    ids = torch.zeros(1, 1, dtype=torch.long, device=parameter.device)
    mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with torch.no_grad(), mode:
            model(
                input_ids=ids if parameter.is_meta else torch.zeros(1, 1, dtype=torch.long, device=parameter.device),
                past_key_values=Cache(layers=layers),
                use_cache=True,
            )
    except DataDependentOutputException:
        raise UsageError(
            f"{type(model).__name__} computes with numbers that it reads from its tensors: a Program has fixed shapes."
        ) from None
    shapes = []
    for layer, kind, option in zip(layers, kinds, options, strict=True):
        if layer.seen is None:
            raise UsageError(f"{type(model).__name__} does not use the cache that it is given for its keys and values.")
        keys, values = layer.seen
        window = option.get("sliding_window") if kind == SLIDING else None
        shapes.append(LayerShape(keys.shape[1], keys.shape[-1], values.shape[-1], keys.dtype, window))
    return tuple(shapes)


def sees(queries: torch.Tensor, length: int, window: int | None) -> torch.Tensor:
    """[…, 1] positions of queries -> […, length]: whether each sees a position of the cache."""
    positions = torch.arange(length, device=queries.device)
    seen = positions <= queries
    return seen if window is None else seen & (positions > queries - window)
