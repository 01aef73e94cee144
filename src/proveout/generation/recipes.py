"""Formats of a decoder's weights by what they are for: the usual recipes, and the smallest that keeps enough tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from proveout.errors import UsageError, unknown
from proveout.generation.messages import Agreement
from proveout.settings import CacheFormat, Weights
from proveout.types import Settings

RECIPES: dict[str, dict[str, Weights]] = {
    "performance": {"attention": "bfloat8_b", "feed_forward": "bfloat4_b", "head": "bfloat8_b"},
    "accuracy": {"attention": "bfloat8_b", "feed_forward": "bfloat8_b", "head": "bfloat8_b"},
    "same": {},
}
"""From the smallest to the one that changes nothing. The first is what decoders on these chips usually run with."""
CACHES: dict[str, CacheFormat] = {"performance": "bfloat8_b"}
"""How a recipe keeps keys and values where ttnn's cache kernels read them; the others leave that to `precision`."""
AUTO = "auto"


def with_recipe(settings: Settings, model: Any, name: str) -> Settings:
    """Settings with the recipe's formats; what the user overrides himself counts more."""
    if name not in RECIPES:
        raise unknown("recipe", name, [*RECIPES, AUTO])
    formats = RECIPES[name]
    pairs = tuple((f"model.{path}", formats[part]) for path, part in parts_of(model) if part in formats)
    cache = settings.cache if settings.cache != "same" else CACHES.get(name, "same")
    return replace(settings, overrides=(*pairs, *settings.overrides), cache=cache)


def parts_of(model: Any) -> Iterator[tuple[str, str]]:
    """The outermost modules that are attention, feed-forward or the head, by their paths in the model."""
    head = model.get_output_embeddings()
    inside: tuple[str, ...] = ()
    for path, module in model.named_modules():
        if path.startswith(inside) and inside:
            continue
        part = "head" if module is head else _part(path.rpartition(".")[2], type(module).__name__)
        if part:
            inside = (*inside, f"{path}.")
            yield path, part


def _part(name: str, kind: str) -> str:
    if "attn" in name.lower() or kind.endswith(("Attention", "Mixer")):
        return "attention"
    feeds = name in ("mlp", "feed_forward", "ffn", "block_sparse_moe", "experts") or kind.endswith(("MLP", "Experts"))
    return "feed_forward" if feeds else ""


def smallest_within(budget: float, judged: Callable[[str], Agreement]) -> tuple[str, dict[str, Agreement]]:
    """The first recipe whose top-1 agreement is at least the budget, and what was learnt of those that were tried."""
    if not 0 < budget <= 1:
        raise UsageError(f"a budget of {budget}: give the share of tokens that must agree, above 0 and at most 1.")
    tried: dict[str, Agreement] = {}
    for name in RECIPES:
        tried[name] = judged(name)
        if tried[name].top1 >= budget:
            break
    return name, tried
