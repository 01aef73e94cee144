"""Whether a generator says what eager mode says: token for token, and step by step on eager's own tokens."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from proveout.check.compare import pcc_between
from proveout.generation.generator import Generator
from proveout.generation.messages import Agreement

CACHE = "cache_params"
"""What a state space of transformers calls its cache."""


@torch.no_grad()
def eager_tokens(model: Any, ids: torch.Tensor, mask: torch.Tensor, new_tokens: int) -> torch.Tensor:
    """[batch, new_tokens]: what eager mode generates with transformers' own growing cache, always taking the most
    likely token; no token ends a text. Padding is on the left."""
    parameters = inspect.signature(model.forward).parameters
    places, kept = "position_ids" in parameters, "past_key_values" if "past_key_values" in parameters else CACHE
    tokens: list[torch.Tensor] = []
    cache, step = None, ids
    for _ in range(new_tokens):
        position = (mask.cumsum(1) - 1).clamp(min=0)[:, -step.shape[1] :]
        where = {"position_ids": position} if places else {}
        if cache is None or kept != CACHE:  # a state space masks the tokens that it is given, and no earlier ones
            where["attention_mask"] = mask
        out = model(input_ids=step, use_cache=True, **{kept: cache}, **where)
        tokens.append(out.logits[:, -1].argmax(-1))
        cache, step = getattr(out, kept), tokens[-1][:, None]
        mask = torch.cat([mask, torch.ones_like(step)], 1)
    return torch.stack(tokens, 1)


@torch.no_grad()
def agreement(generator: Generator, ids: torch.Tensor, mask: torch.Tensor, tokens: torch.Tensor) -> Agreement:
    """Both are given eager's `tokens` [batch, steps] after the prompts, whatever they would have said themselves."""
    ours = forced_logits(generator, ids, mask, tokens)
    theirs = torch.stack(
        [_eager_logits(generator.model, row[seen.bool()], t) for row, seen, t in zip(ids, mask, tokens)]
    )
    best = theirs.argmax(-1, keepdim=True)  # [batch, steps, 1]
    top5 = (ours.topk(min(5, ours.shape[-1]), -1).indices == best).any(-1)
    top1 = ours.argmax(-1, keepdim=True) == best
    return Agreement(top1.numel(), float(top1.float().mean()), float(top5.float().mean()), pcc_between(ours, theirs))


def forced_logits(generator: Generator, ids: torch.Tensor, mask: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """[batch, steps, vocabulary]: the device's logits for each step when it is given `tokens`."""
    logits = [generator.prefill(ids, mask)]
    position = mask.sum(1)
    for step in range(tokens.shape[1] - 1):
        logits.append(generator.decode(tokens[:, step], position + step))
    return torch.stack(logits, 1).float()


def _eager_logits(model: Any, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """[steps, vocabulary]: one call without a cache on the prompt and all tokens but the last."""
    whole = torch.cat([prompt, tokens[:-1]])[None]
    logits: torch.Tensor = model(input_ids=whole, use_cache=False).logits
    return logits[0, len(prompt) - 1 :].float()


def equal_before_difference(ours: torch.Tensor, theirs: torch.Tensor) -> int:
    """Tokens [batch, steps] that are the same up to each user's first difference, in all."""
    return int((ours == theirs).long().cumprod(1).sum())
