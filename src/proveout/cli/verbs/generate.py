"""`proveout generate`: a decoder's prefill and decode Programs, their tokens against eager's, and their times."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Annotated

import typer

from proveout.capture.named import named
from proveout.cli.options import CacheDir, Json, ScriptArgs, SearchDir, Small, device_names
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.progress import Progress
from proveout.cli.request import setting_of
from proveout.clock.conditions import conditions
from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN, modelled
from proveout.coding import digest, to_json
from proveout.devices.registry import find, settings_for
from proveout.errors import UsageError, unknown
from proveout.generation.messages import DECODE, GenerationReport, GenerationRequest, PhaseReport
from proveout.generation.recipes import AUTO, RECIPES
from proveout.generation.worker import answered
from proveout.measure.records import keep
from proveout.report.tables.terminal import grid
from proveout.serving import Configuration
from proveout.types import Job, MemoryUse, Record, Timing, Workload
from proveout.words import byte_count, counted, rounded

Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Scripts, their stems in the corpora, or classes of transformers (LlamaForCausalLM).",
        show_default=False,
    ),
]
PromptLength = Annotated[int, typer.Option("--prompt-length", min=1, metavar="N", help="Tokens of the longest prompt.")]
NewTokens = Annotated[int, typer.Option("--new-tokens", min=1, metavar="N", help="Tokens to generate.")]
Batch = Annotated[
    int, typer.Option("--batch", min=1, metavar="N", help="Users at once; their prompts differ in length.")
]
MaxLength = Annotated[
    int,
    typer.Option(
        "--max-length", min=0, metavar="N", help="Positions of the cache [default: as needed].", show_default=False
    ),
]
Paged = Annotated[
    bool, typer.Option("--paged", help="The cache in pages that users share; a page table is an input of every call.")
]
PageSize = Annotated[int, typer.Option("--page-size", min=1, metavar="N", help="Tokens of a page, with --paged.")]
NumPages = Annotated[
    int,
    typer.Option(
        "--pages", min=0, metavar="N", help="Pages of the cache, with --paged [default: as needed].", show_default=False
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="D", help="What to generate on.", autocompletion=device_names)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the compiler; may be repeated.", show_default=False),
]
Recipe = Annotated[
    str,
    typer.Option(
        "--recipe",
        metavar="NAME",
        help="Formats of the weights: performance (bfp8 with the cache, MLPs in bfp4), accuracy (bfp8), same, or auto.",
        show_default=False,
    ),
]
Budget = Annotated[
    float, typer.Option("--budget", min=0, max=1, metavar="SHARE", help="Top-1 agreement that --recipe auto must keep.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Plan only: the model is made without its weights, nothing is computed.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each model.")]


def verb(
    models: Models = None,
    prompt_length: PromptLength = 32,
    new_tokens: NewTokens = 32,
    batch: Batch = 1,
    max_length: MaxLength = 0,
    paged: Paged = False,
    page_size: PageSize = 32,
    pages: NumPages = 0,
    device: Device = "sim",
    overrides: Set = None,
    recipe: Recipe = "",
    budget: Budget = 0.95,
    dry_run: DryRun = False,
    small: Small = False,
    search_dir: SearchDir = None,
    script_args: ScriptArgs = "",
    timeout: Timeout = 1800.0,
    cache_dir: CacheDir = None,
    as_json: Json = False,
) -> int:
    """Generate text with a decoder, its cache on the device.

    The decoder is compiled twice, for prefill and for decode. Reports whether it generates the same tokens as eager
    mode, how often both agree on eager's own tokens, and the time of a call. With --dry-run the weights are not
    loaded, so that even the largest model can be planned anywhere. Each generation is kept as a Record.

    \b
    Examples:
      proveout generate llm/gpt2 --small --new-tokens 64
      proveout generate llm/llama_3_1_8b --dry-run --recipe performance
      proveout generate llm/llama_3_2_1b --small --batch 4 --device cpu
      proveout generate llm/qwen_3_8b --small --batch 4 --paged --page-size 64
    """
    if pages and not paged:
        raise UsageError("--pages is for a cache in pages: give --paged as well.")
    if recipe and recipe not in (*RECIPES, AUTO):
        raise unknown("recipe", recipe, [*RECIPES, AUTO])
    place = find(device).name
    if recipe not in ("", "same") and find(place).target == "torch":
        raise UsageError(f"--recipe {recipe} chooses formats for a chip: device {place!r} has one. Leave it out.")
    settings = settings_for(place, dict(map(setting_of, overrides or ())))
    answers = []
    chosen = named(models or [], search_dir or [], f"{script_args} --small".lstrip() if small else script_args)
    with Progress(len(chosen)) as progress:
        for one in chosen:
            request = GenerationRequest(
                str(one.script),
                one.script_args,
                place,
                settings,
                prompt_length,
                new_tokens,
                batch,
                max_length,
                page_size if paged else 0,
                pages,
                recipe,
                budget,
                dry_run,
            )
            progress.start(what := f"{'planning' if dry_run else 'generating with'} {one.name}")
            report = answered("proveout.generation.child", request, GenerationReport, one.name, timeout)
            answers.append((one, request, replace(report, model=one.call(report.model))))
            progress.step(what, f"{one.name}: {'failed' if report.error else 'done'}")
    failed = sum(bool(report.error) for *_, report in answers)
    if reason := keep([record_of(ask, report) for _, ask, report in answers if not report.error], cache_dir):
        note(f"not kept: {reason}")
    if as_json:
        emit_json({"verb": "generate", "failed": failed, "device": place, "models": [to_json(r) for *_, r in answers]})
    for one, request, report in answers:
        if report.error:
            note(report.error if one.name in report.error else f"{one.name}: {report.error}")
        elif not as_json:
            emit(_text(request, report))
    return 1 if failed else 0


def _text(request: GenerationRequest, report: GenerationReport) -> str:
    lines = [
        f"{report.model} on {request.device}: {report.parameters / 1e6:,.4g} M parameters"
        f" ({byte_count(report.weight_bytes)}), precision {request.settings.precision}",
        f"  {counted(report.batch, 'user')}, prompts of {_range(report.prompt_lengths)} tokens,"
        f" {report.new_tokens} new ones;"
        f" {'states' if report.recurrent else f'cache of {_cache(report)}'}: {byte_count(report.cache_bytes)}",
    ]
    lines += [f"  {sentence}" for sentence in report.notes]
    titles = ("Call", "Steps", "On the host", "Transfers", "Cache on device", "Modelled", "Measured here")
    lines.append(grid(titles, [_row(phase, request) for phase in report.phases], colour()).rstrip())
    weak = (
        [] if find(request.device).times == "modelled" else [p for p in report.phases if p.measured and p.measured.why]
    )
    lines += [f"  {phase.name}: {phase.measured.verdict}: {phase.measured.why}" for phase in weak if phase.measured]
    decode = next((p for p in report.phases if p.name == DECODE), None)
    if decode and decode.modelled_ns and decode.low_ns and decode.high_ns:
        rate, low, high = (1e9 / ns for ns in (decode.modelled_ns, decode.high_ns, decode.low_ns))
        lines.append(
            f"  modelled, over a full cache: {rounded(rate)} tokens/s for each user (between {rounded(low)} and"
            f" {rounded(high)}), {rounded(rate * report.batch)} in all"
        )
    if decode and decode.resident and not report.recurrent:
        lines.append(f"  {_decode_kernels(decode)}")
    lines += [f"  {phase.name} does not fit: {phase.short}" for phase in report.phases if not phase.fits]
    if report.equal_tokens is not None:
        whole = report.batch * report.new_tokens
        same = "all" if report.equal_tokens == whole else f"{report.equal_tokens} of"
        lines.append(f"  tokens equal to eager mode's until the first difference: {same} {whole}")
    if report.agreement is not None:
        pcc = "undefined" if report.agreement.pcc is None else f"{report.agreement.pcc:.6f}"
        lines.append(
            f"  given eager's tokens ({counted(report.agreement.steps, 'step')}): top-1 {report.agreement.top1:.1%},"
            f" top-5 {report.agreement.top5:.1%}, PCC of the logits {pcc}"
        )
    verbed = "planned" if request.dry_run else "compiled and run"
    lines.append(f"  {verbed} in {report.seconds:.1f} s, at most {byte_count(report.peak_rss_bytes)} of memory here")
    return "\n".join(lines)


CHOSEN = "; the chip chooses the token (ttnn.argmax), and no logits leave it"


def _cache(report: GenerationReport) -> str:
    if not report.page_size:
        return f"{report.max_length} positions"
    return f"{report.pages} pages of {report.page_size} positions, at most {report.max_length} for a user"


def _decode_kernels(decode: PhaseReport) -> str:
    """Whether the cache is written and read by ttnn's kernels for it."""
    own = [f"{count} × {kernel}" for kernel, count in decode.kernels if kernel.endswith(("_decode", "update_cache"))]
    general = (
        "decode writes and reads the cache with general kernels:"
        " ttnn's own take bfloat16, causal masks and heads of whole tiles"
    )
    chosen = "" if not any(kernel == "ttnn.argmax" for kernel, _ in decode.kernels) else CHOSEN
    return (f"decode: {', '.join(own)}" if own else general) + chosen


def _row(phase: PhaseReport, request: GenerationRequest) -> tuple[str, ...]:
    modelled = "–"
    if phase.modelled_ns is not None and phase.low_ns is not None and phase.high_ns is not None:
        low, ns, high = (rounded(value / 1e6) for value in (phase.low_ns, phase.modelled_ns, phase.high_ns))
        modelled = f"{ns} ms ({low} to {high})"
    elif phase.chip_alone_ns is not None:
        modelled = f"? (chip alone: {rounded(phase.chip_alone_ns / 1e6)} ms)"
    measured = "–"
    if phase.measured:
        what = " of simulation" if find(request.device).times == "modelled" else ""
        measured = f"{_ms(phase.measured)}{what}, median of {len(phase.measured.samples_ns)}"
    modelled_chip = (
        find(request.device).target == "ttnn"
    )  # other devices compute on the host's tensors, or keep their own
    resident = (counted(phase.resident, "tensor") if phase.resident else "no") if modelled_chip else "–"
    return (phase.name, str(phase.steps), str(phase.on_host), str(phase.transfers), resident, modelled, measured)


def _ms(timing: Timing) -> str:
    """The median with its interval."""
    ends = [rounded(ns / 1e6) for ns in timing.interval_ns or ()]
    return f"{rounded(timing.median_ns / 1e6)} ms{' (' + ' to '.join(ends) + ')' if ends else ''}"


def record_of(request: GenerationRequest, report: GenerationReport) -> Record:
    """A generation as a Record: the times of its calls, and in its report how often it says eager's token."""
    timings = []
    for phase in report.phases:
        what = PER_TOKEN if phase.name == DECODE else FIRST_TOKEN
        if phase.modelled_ns is not None:
            interval = (phase.low_ns or phase.modelled_ns, phase.high_ns or phase.modelled_ns)
            timings.append(modelled(what, request.device, phase.modelled_ns, interval, phase.calibrated or 0.0))
        if phase.measured and (phase.measured.what == what or phase.name == DECODE):  # of a simulation, a step's
            timings.append(phase.measured)
    facts = {name: getattr(request, name) for name in OF_THE_KEY}
    selector = digest(["generate", report.model, request.script_args, facts])[:12]
    short = next((phase.short for phase in report.phases if not phase.fits), "")
    peak = max((phase.peak_dram_bytes for phase in report.phases), default=0)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Record(
        Job(
            Workload(
                report.model, request.script, selector, parameters=report.parameters, script_args=request.script_args
            ),
            request.device,
            request.settings,
            ("generate",),
            iterations=request.new_tokens,
            warmup=1,
            baseline=False,
            serve=Configuration(report.model, request.device, report.batch, multiprocess=False),
        ),
        "failed" if short else "passed",
        short,
        failure="memory" if short else "",
        timings=tuple(timings),
        memory=MemoryUse(dram_peak_bytes=peak, weight_bytes=report.weight_bytes, fits=not short),
        environment=conditions(),
        created=created,
        report={**to_json(report), **facts, "status": "passed", "created": created},
    )


OF_THE_KEY = ("prompt_length", "new_tokens", "batch", "max_length", "page_size", "pages", "recipe", "budget", "dry_run")
"""What tells one generation of a model from another, besides device and settings."""


def _range(lengths: tuple[int, ...]) -> str:
    return str(lengths[0]) if len(set(lengths)) == 1 else f"{min(lengths)} to {max(lengths)}"
