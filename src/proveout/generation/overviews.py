"""What one wants to know first about a decoder: its Programs, whether its tokens are eager's, how fast, what fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from proveout.generation.agreement import agreement, eager_tokens, equal_before_difference
from proveout.generation.generator import Generator
from proveout.generation.messages import Agreement
from proveout.generation.modelled import modelled_row
from proveout.generation.speed import SpeedRow
from proveout.program import Program
from proveout.types import Settings

PROMPT = NEW_TOKENS = 32
USERS = (1, 32)


@dataclass(frozen=True, eq=False)
class Overview:
    """A decoder on a modelled chip. Times are in a trace."""

    programs: dict[str, Program]
    prompt_length: int
    new_tokens: int
    equal_tokens: int
    """Eager's, before the first difference."""
    agreement: Agreement
    rows: tuple[SpeedRow, ...]
    """For one user, and for many."""
    notes: tuple[str, ...]


def overview(model: Any, device: str, settings: Settings) -> Overview:
    """Generate with a decoder of transformers on a modelled chip, and plan it for more users; errors are ours."""
    config = model.config.get_text_config(decoder=True)
    positions = getattr(config, "max_position_embeddings", None) or PROMPT + NEW_TOKENS
    length = min(PROMPT + NEW_TOKENS, positions)
    prompt, new = length // 2, length - length // 2
    traced = replace(settings, trace=True)
    generator = Generator.compile(model, device=device, settings=traced, max_length=length)
    ids = torch.randint(0, config.vocab_size, (1, prompt), generator=torch.Generator().manual_seed(settings.seed))
    mask = torch.ones_like(ids)
    theirs = eager_tokens(model, ids, mask, new)
    ours = torch.stack(list(generator.generate(ids, new, mask=mask)), 1)
    rows = [modelled_row(generator, generator.prefill_phase(prompt), prompt, device, traced)]
    for users in USERS[1:]:
        many = Generator.compile(model, device=device, settings=traced, max_length=length, batch=users, dry_run=True)
        rows.append(modelled_row(many, many.prefill_phase(prompt, 1), prompt, device, traced))
    same = equal_before_difference(ours, theirs)
    close = agreement(generator, ids, mask, theirs)
    return Overview(generator.programs, prompt, new, same, close, tuple(rows), generator.notes)
