"""The process that serves requests with a script's decoder on a device whose times a clock takes."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from proveout.batching.engines import GeneratorEngine
from proveout.batching.scheduler import Request, Scheduler
from proveout.batching.serving import MeasuredClock, serve
from proveout.batching.simulated import ServeAsk, Served
from proveout.generation.child import answer, decoder_of
from proveout.generation.generator import Generator
from proveout.generation.messages import GenerationRequest
from proveout.generation.sampling import GREEDY


def main(arguments: list[str]) -> None:
    answer(arguments, ServeAsk, Served, served)


def served(ask: ServeAsk) -> Served:
    """Compile, warm up with one request of each length, then serve."""
    model = decoder_of(GenerationRequest(ask.script, ask.script_args, ask.device, ask.settings))
    generator = Generator.compile(
        model,
        device=ask.device,
        settings=ask.settings,
        max_length=ask.max_length,
        batch=ask.slots,
        page_size=ask.page_size,
        pages=ask.pages,
        sampling=GREEDY,
    )
    random = torch.Generator().manual_seed(ask.settings.seed)
    words = model.config.get_text_config(decoder=True).vocab_size
    requests = [
        Request(n, tuple(torch.randint(0, words, (length,), generator=random).tolist()), new, due)
        for n, (due, length, new) in enumerate(zip(ask.intended_ns, ask.prompt_lengths, ask.max_tokens))
    ]
    engine = GeneratorEngine(generator)
    lengths = dict.fromkeys(generator.bucket(length) for length in ask.prompt_lengths)
    warm = [Request(n, (0,) * min(length, ask.max_length - 2), 2) for n, length in enumerate(lengths)]
    serve(warm, _scheduler(ask), engine, MeasuredClock())
    run, _ = serve(requests, _scheduler(ask), engine, MeasuredClock())
    name = f"{Path(ask.script).stem} ({type(model).__name__})"
    return Served.of(name, run)


def _scheduler(ask: ServeAsk) -> Scheduler:
    return Scheduler(ask.pages, ask.page_size, ask.slots, ask.max_length)


if __name__ == "__main__":
    main(sys.argv[1:])
