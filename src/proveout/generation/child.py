"""The process that `proveout generate` starts: runs a script up to its decoder, and generates with that."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import transformers

from proveout.capture.running import explain, print_traceback, run_script
from proveout.clock.pacing import clock
from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN, judged, kept, without_garbage
from proveout.coding import from_json, to_json
from proveout.errors import ProveoutError, UsageError
from proveout.generation.agreement import agreement, eager_tokens, equal_before_difference
from proveout.generation.generator import Generator
from proveout.generation.messages import Agreement, GenerationReport, GenerationRequest, PhaseReport
from proveout.generation.phase import LOGITS, Phase
from proveout.generation.recipes import AUTO, smallest_within, with_recipe
from proveout.generation.sampling import GREEDY
from proveout.generation.worker import Answer
from proveout.types import TILE, Timing


class Met(BaseException):
    """The script's decoder is known; not an Exception, so that no script catches it by accident."""


def main(arguments: list[str]) -> None:
    answer(arguments, GenerationRequest, GenerationReport, generated)


Q = TypeVar("Q")
A = TypeVar("A", bound=Answer)


def answer(arguments: list[str], question: type[Q], kind: type[A], work: Callable[[Q], A]) -> None:
    """A worker's whole life, for `isolate.answered`: a question on standard input, its answer in a file."""
    if not sys.flags.safe_path:
        del sys.path[0]  # `python -m` put the working folder there; `python script.py` would not
    content, path = from_json(question, json.loads(sys.stdin.read())), Path(arguments[0])
    transformers.logging.set_verbosity_error()
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    try:
        result = work(content)
    except ProveoutError as error:
        result = kind(error=str(error), failure=error.failure)
    except MemoryError as error:
        result = kind(error=f"out of memory: {error}. Make the model smaller: --small", failure="memory")
    path.write_text(json.dumps(to_json(result), allow_nan=False))


def generated(request: GenerationRequest) -> GenerationReport:
    """Do what is asked; errors are ours, with a sentence."""
    began = time.monotonic()
    model = decoder_of(request)
    name = f"{Path(request.script).stem} ({type(model).__name__})"
    lengths = prompt_lengths(request.prompt_length, request.batch)
    needed = request.prompt_length + request.new_tokens - 1
    if request.max_length and request.max_length < needed:
        raise UsageError(
            f"--max-length {request.max_length} is too short for a prompt of {request.prompt_length} and"
            f" {request.new_tokens} new tokens: give at least {needed}."
        )
    length = request.max_length or cache_length(model, needed)

    compile_for = functools.partial(
        Generator.compile,
        model,
        device=request.device,
        max_length=length,
        batch=request.batch,
        page_size=request.page_size,
        pages=request.pages,
        sampling=GREEDY,
        dry_run=request.dry_run,
    )

    def compiled(recipe: str) -> Generator:
        settings = with_recipe(request.settings, model, recipe) if recipe else request.settings
        generator = compile_for(settings=settings)
        if settings.cache != request.settings.cache and generator.cache_is_unpacked:
            generator = compile_for(settings=replace(settings, cache=request.settings.cache))
        generator.prefill_phase(request.prompt_length)
        return generator

    tried: tuple[str, ...] = ()
    if request.recipe == AUTO:
        generator, tried = _within_budget(request, lengths, model, compiled)
    else:
        generator = compiled(request.recipe)
    report = GenerationReport(
        model=name,
        batch=request.batch,
        prompt_lengths=lengths,
        new_tokens=request.new_tokens,
        max_length=generator.max_length,
        parameters=sum(p.numel() for p in model.parameters()),
        weight_bytes=generator.weight_bytes,
        cache_bytes=generator.cache_bytes,
        recurrent=generator.recurrent,
        page_size=generator.paging.size if generator.paging else 0,
        pages=generator.paging.count if generator.paging else 0,
        notes=(*generator.notes, *tried),
    )
    times: dict[str, Timing] = {}
    if not request.dry_run:
        report = _generated(generator, request, report, times)
    generating = [phase for phase in generator.phases if phase.name != LOGITS]  # which teacher forcing alone asks for
    phases = tuple(_phase(phase, times.get(phase.name)) for phase in generating)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return replace(report, phases=phases, seconds=time.monotonic() - began, peak_rss_bytes=peak)


def cache_length(model: Any, needed: int) -> int:
    """How many positions a cache for so many has: whole tiles, as far as the model has positions."""
    positions = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    tiles = -(-needed // TILE) * TILE
    if positions is None:
        return tiles
    if needed > positions:
        raise UsageError(
            f"prompt and new tokens need {needed:,} positions, and {type(model).__name__} has {positions:,}: ask for a"
            " shorter prompt or fewer new tokens."
        )
    return min(tiles, int(positions))


def _within_budget(
    request: GenerationRequest, lengths: tuple[int, ...], model: Any, compiled: Callable[[str], Generator]
) -> tuple[Generator, tuple[str, ...]]:
    """The generator with the smallest weights that say enough of eager's tokens, and how each recipe did."""
    if request.dry_run:
        raise UsageError("--recipe auto needs to run the model: leave out --dry-run, or name a recipe.")
    ids, mask = prompts(lengths, model, request.settings.seed)
    theirs = eager_tokens(model, ids, mask, request.new_tokens)
    generators: dict[str, Generator] = {}

    def judged(recipe: str) -> Agreement:
        generators[recipe] = compiled(recipe)
        return agreement(generators[recipe], ids, mask, theirs)

    chosen, tried = smallest_within(request.budget, judged)
    said = [f"weights {name}: top-1 {a.top1:.1%}, top-5 {a.top5:.1%}" for name, a in tried.items()]
    return generators[chosen], (
        *said,
        f"weights {chosen} are the smallest with a top-1 of at least {request.budget:.0%}",
    )


def _generated(
    generator: Generator, request: GenerationRequest, report: GenerationReport, times: dict[str, Timing]
) -> GenerationReport:
    """Eager's tokens, ours, and how often both agree."""
    ids, mask = prompts(report.prompt_lengths, generator.model, request.settings.seed)
    generating = generator.generate(ids, request.new_tokens, GREEDY, mask=mask)  # refuses here what does not fit
    theirs = eager_tokens(generator.model, ids, mask, request.new_tokens)
    list(generator.generate(ids, min(2, request.new_tokens), mask=mask))  # the first calls load what was compiled
    prefill, decode = generator.prefill_phase(request.prompt_length), generator.decode_phase
    tokens: list[torch.Tensor] = []
    with without_garbage():
        stamps = [clock()]
        for token in generating:
            stamps.append(clock())
            tokens.append(token)
    spent = np.diff(stamps)
    for phase, samples, what in ((prefill, spent[:1], FIRST_TOKEN), (decode, spent[1:], PER_TOKEN)):
        simulated, conditions = phase.compiled.modelled, (("warmup", "1"), ("threads", str(torch.get_num_threads())))
        timing = Timing("simulation" if simulated else what, "measured", request.device, *kept(samples))
        times[phase.name] = judged(replace(timing, conditions=(*timing.conditions, *conditions)), samples)
    equal = equal_before_difference(torch.stack(tokens, 1), theirs)
    return replace(report, equal_tokens=equal, agreement=agreement(generator, ids, mask, theirs))


def prompt_lengths(longest: int, batch: int) -> tuple[int, ...]:
    """Of as many prompts: from the longest down to half of it, evenly."""
    return tuple(longest - i * (longest - longest // 2) // batch for i in range(batch))


def prompts(lengths: tuple[int, ...], model: Any, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens, and their mask; padding is on the left."""
    random = torch.Generator().manual_seed(seed)
    words = model.config.get_text_config(decoder=True).vocab_size
    ids = torch.randint(0, words, (len(lengths), max(lengths)), generator=random)
    mask = (torch.arange(max(lengths))[None] >= max(lengths) - torch.tensor(lengths)[:, None]).long()
    return ids * mask, mask


def decoder_of(request: GenerationRequest) -> Any:
    """The first decoder that a script calls. The call itself is not made, and nothing after it."""
    script = Path(os.path.abspath(request.script))
    if not script.is_file():
        raise UsageError(f"{script} is not a file. Name a Python script.")
    models: list[Any] = []
    with _until_called(models), _without_weights() if request.dry_run else contextlib.nullcontext():
        _, raised = run_script(script, request.script_args)
    if models:
        return models[0].eval()
    if raised is not None and not isinstance(raised, SystemExit):
        print_traceback(raised)
        raise UsageError(explain(script, raised, ran=False))
    raise UsageError(
        f"{script.name} calls no language model of transformers: build one that gives logits, and call it."
    )


@contextlib.contextmanager
def _until_called(models: list[Any]) -> Iterator[None]:
    """While open, the first call of a model of transformers that has a vocabulary ends the script."""
    original = torch.nn.Module.__call__

    def watched(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(module, transformers.PreTrainedModel) and module.get_output_embeddings() is not None:
            models.append(module)
            raise Met
        return original(module, *args, **kwargs)

    torch.nn.Module.__call__ = watched  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original  # type: ignore[method-assign]


@contextlib.contextmanager
def _without_weights() -> Iterator[None]:
    """While open, tensors have shapes and no data."""
    with torch.device("meta"):
        yield


def _phase(phase: Phase, measured: Timing | None) -> PhaseReport:
    steps = [s for p in phase.programs for s in p.body if s.kernel != "ttnn.deallocate"]
    predicted, alone, memory = phase.predicted, phase.chip_alone, phase.memory
    kernels = collections.Counter(s.kernel for s in steps if not s.on_host)
    return PhaseReport(
        phase.name,
        len(steps),
        sum(s.on_host for s in steps) if phase.compiled.modelled else 0,
        sum(p.num_transfers for p in phase.programs),
        sum(len(p.state) for p in phase.programs),
        tuple(kernels.most_common()),
        predicted.ns if predicted else None,
        predicted.low_ns if predicted else None,
        predicted.high_ns if predicted else None,
        predicted.calibrated if predicted else None,
        alone.ns if alone else None,
        measured=measured,
        fits=memory.fits,
        peak_dram_bytes=memory.dram_peak_bytes,
        short="" if memory.fits else memory.peak_at,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
