"""The process that `proveout tokens` starts: plans or times a script's decoder for each batch and prompt length."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import Any

import torch

from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN, measured
from proveout.devices.registry import find
from proveout.generation.child import answer, cache_length, decoder_of
from proveout.generation.generator import Generator
from proveout.generation.messages import GenerationRequest
from proveout.generation.modelled import modelled_row
from proveout.generation.sampling import GREEDY
from proveout.generation.speed import SpeedAsk, SpeedRow, SpeedTold
from proveout.types import Timing


def main(arguments: list[str]) -> None:
    answer(arguments, SpeedAsk, SpeedTold, speeds)


def speeds(ask: SpeedAsk) -> SpeedTold:
    """A row for each batch and length; modelled devices are planned without the model's weights."""
    began = time.monotonic()
    planned = find(ask.device).times == "modelled"
    model = decoder_of(GenerationRequest(ask.script, ask.script_args, ask.device, ask.settings, dry_run=planned))
    rows = [_row(model, ask, batch, length, planned) for batch in ask.batches for length in ask.prompt_lengths]
    return SpeedTold(
        f"{Path(ask.script).stem} ({type(model).__name__})",
        parameters=sum(p.numel() for p in model.parameters()),
        rows=tuple(rows),
        seconds=time.monotonic() - began,
    )


def _row(model: Any, ask: SpeedAsk, batch: int, length: int, planned: bool) -> SpeedRow:
    max_length = ask.max_length or cache_length(model, length + ask.new_tokens)
    generator = Generator.compile(
        model,
        device=ask.device,
        settings=ask.settings,
        max_length=max_length,
        batch=batch,
        sampling=GREEDY,
        dry_run=planned,
    )
    prefill = generator.prefill_phase(length, 1)
    if not planned:
        first, later = timed(generator, ask, length)
        return SpeedRow(
            batch, length, max_length, "measured", first, later, generator.weight_bytes, generator.cache_bytes
        )
    return modelled_row(generator, prefill, length, ask.device, ask.settings)


def timed(generator: Generator, ask: SpeedAsk, length: int) -> tuple[Timing, Timing]:
    """Prefill of one prompt, again and again, then decode steps of all users."""
    random = torch.Generator().manual_seed(ask.settings.seed)
    words = generator.model.config.get_text_config(decoder=True).vocab_size
    ids = torch.randint(0, words, (1, length), generator=random)
    slots = None if generator.batch == 1 else [0]
    fill = functools.partial(generator.prefill, ids, slots=slots)
    first = measured(FIRST_TOKEN, ask.device, fill, iterations=ask.runs, warmup=1)
    tokens, step = torch.zeros(generator.batch, dtype=torch.long), [0]

    def decode() -> None:
        generator.next_token(tokens, torch.full((generator.batch,), length + step[0] % ask.new_tokens))
        step[0] += 1

    later = measured(PER_TOKEN, ask.device, decode, iterations=max(ask.new_tokens, ask.runs), warmup=1)
    return first, later


if __name__ == "__main__":
    main(sys.argv[1:])
