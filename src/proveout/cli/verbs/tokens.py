"""`proveout tokens`: how fast decoders generate, for several numbers of users and lengths, on several devices."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Annotated

import typer

from proveout.capture.named import Named, named
from proveout.cli.options import CacheDir, Json, ScriptArgs, SearchDir, Small, device_names
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.progress import Progress
from proveout.cli.request import setting_of
from proveout.clock.conditions import conditions
from proveout.coding import digest, to_json
from proveout.devices.registry import find, settings_for
from proveout.errors import UsageError
from proveout.generation.speed import SpeedAsk, SpeedRow, SpeedTold
from proveout.generation.worker import answered
from proveout.measure.records import keep
from proveout.report.tables.terminal import grid
from proveout.serving import Configuration
from proveout.types import Job, MemoryUse, Record, Timing, Workload
from proveout.words import byte_count, rounded

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="Scripts, their stems in the corpora, or classes.", show_default=False),
]
Devices = Annotated[
    str, typer.Option("--device", metavar="D,…", help="sim, sim:n300, cpu, cuda …", autocompletion=device_names)
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the compiler; may be repeated.", show_default=False),
]


def verb(
    models: Models = None,
    batches: Annotated[str, typer.Option("--batch", metavar="N,…", help="Users at once.")] = "1,32",
    lengths: Annotated[str, typer.Option("--prompt-length", metavar="N,…", help="Tokens of each prompt.")] = "128",
    new_tokens: Annotated[int, typer.Option("--new-tokens", min=1, metavar="N", help="Tokens after the prompt.")] = 128,
    devices: Devices = "sim",
    overrides: Set = None,
    small: Small = False,
    search_dir: SearchDir = None,
    script_args: ScriptArgs = "",
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Prompts to time where a clock does.")] = 5,
    timeout: Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each device.")] = 3600.0,
    cache_dir: CacheDir = None,
    as_json: Json = False,
) -> int:
    """Time to first token and tokens per second of a decoder.

    For several numbers of users and prompt lengths, with the time per output token.

    On a modelled chip the model is planned without its weights: times are predictions with their interval, and memory
    is set against DRAM, with the longest context and the largest batch that fit. Elsewhere they are measured. Each row
    is kept as a Record.

    \b
    Examples:
      proveout tokens transformers/llama --small --device sim,cpu --batch 1,4
      proveout tokens llm/llama_3_1_8b --prompt-length 128,1024 --set trace=true
      proveout tokens llm/qwen_3_8b --device sim:n150,sim:n300
    """
    places = [find(device.strip()).name for device in devices.split(",")]
    numbers = _numbers("--batch", batches), _numbers("--prompt-length", lengths)
    settings = [settings_for(place, dict(map(setting_of, overrides or ()))) for place in places]
    chosen = named(models or [], search_dir or [], f"{script_args} --small".lstrip() if small else script_args)
    answers: list[tuple[SpeedAsk, SpeedTold]] = []
    with Progress(len(chosen) * len(places)) as progress:
        for one in chosen:
            for place, setting in zip(places, settings):
                ask = SpeedAsk(str(one.script), one.script_args, place, setting, *numbers, new_tokens, runs)
                progress.start(what := f"{one.name} on {place}")
                answer = speeds(one, ask, timeout)
                answers.append((ask, dataclasses.replace(answer, model=one.call(answer.model))))
                progress.step(what, f"{what}: {'failed' if answer.error else 'done'}")
                if answer.error:
                    note(f"{one.name} on {place}: {answer.error}")
    results = [record_of(one_ask, answer, row) for one_ask, answer in answers for row in answer.rows]
    if reason := keep(results, cache_dir):
        note(f"not kept: {reason}")
    if as_json:
        emit_json({"verb": "tokens", "rows": [document(a, t, row) for a, t in answers for row in t.rows],
                   "failed": sum(bool(t.error) for _, t in answers), "keys": [r.job.key for r in results]})  # fmt: skip
    else:
        emit(text(answers))
    return 1 if any(answer.error for _, answer in answers) else 0


def speeds(model: Named, ask: SpeedAsk, timeout: float) -> SpeedTold:
    return answered("proveout.generation.speed_child", ask, SpeedTold, model.name, timeout)


def text(answers: list[tuple[SpeedAsk, SpeedTold]]) -> str:
    """One table a model, kinds apart."""
    parts = []
    for name in dict.fromkeys(answer.model for _, answer in answers if answer.rows):
        rows = [(ask, row) for ask, answer in answers if answer.model == name for row in answer.rows]
        millions = next(answer.parameters for _, answer in answers if answer.model == name) / 1e6
        drawn = grid(TITLES, [_cells(ask, row) for ask, row in sorted(rows, key=lambda r: r[1].kind)], colour())
        parts.append(f"{name}, {millions:,.4g} M parameters\n{drawn.rstrip()}")
        parts += [f"  {ask.device}, {row.batch} users: does not fit: {row.short}" for ask, row in rows if not row.fits]
        chips = {ask.device: row.parallel for ask, row in rows if row.parallel}
        parts += [f"  {device}: {'; '.join(sentences)}" for device, sentences in chips.items()]
        parts += [f"  {device}: {UNTOLD}" for device in dict.fromkeys(a.device for a, r in rows if not r.first_token)]
        if weak := [(ask, t) for ask, row in rows for t in (row.first_token, row.per_token) if t and t.why]:
            parts.append(f"  {weak[0][0].device}: {weak[0][1].what}: {weak[0][1].why}")
    return "\n".join(parts)


TITLES = ("Device", "Times", "Users", "Prompt", "TTFT ms", "TPOT ms", "Tokens/s/user", "Tokens/s", "Weights", "Cache",
          "DRAM", "Longest context", "Largest batch")  # fmt: skip


def _cells(ask: SpeedAsk, row: SpeedRow) -> tuple[str, ...]:
    dram = (
        "–"
        if row.peak_bytes is None or not row.dram_bytes
        else f"{row.peak_bytes / row.dram_bytes:.0%} of {byte_count(row.dram_bytes)}"
    )
    return (
        ask.device + (f" ×{row.num_chips}" if row.num_chips > 1 else ""), row.kind, str(row.batch),
        f"{row.prompt_length}", _ms(row.first_token), _ms(row.per_token), _rate(row, 1), _rate(row, row.batch),
        byte_count(row.weight_bytes), byte_count(row.cache_bytes), dram if row.fits else f"{dram}: too much",
        "–" if row.longest_context is None else f"{row.longest_context:,}",
        "–" if row.largest_batch is None else f"{row.largest_batch:,}",
    )  # fmt: skip


UNTOLD = "the prefill has a part on the host, whose time no plan knows: no time to first token can be predicted"


def _ms(timing: Timing | None) -> str:
    if timing is None:
        return "–"
    value = rounded(timing.median_ns / 1e6)
    if timing.interval_ns is None:
        return value
    return f"{value} ({rounded(timing.interval_ns[0] / 1e6)} to {rounded(timing.interval_ns[1] / 1e6)})"


def _rate(row: SpeedRow, users: int) -> str:
    ends = row.per_token.interval_ns
    spread = "" if ends is None else f" ({rounded(users * 1e9 / ends[1])} to {rounded(users * 1e9 / ends[0])})"
    return f"{rounded(row.per_user * users)}{spread}"


def document(ask: SpeedAsk, speeds: SpeedTold, row: SpeedRow) -> dict[str, object]:
    """A row for programs."""
    plain = {f.name: to_json(getattr(row, f.name)) for f in dataclasses.fields(row)}
    rates = {"tokens_per_s_per_user": row.per_user, "tokens_per_s": row.total}
    return {"model": speeds.model, "device": ask.device, "parameters": speeds.parameters, **plain, **rates}


def record_of(ask: SpeedAsk, speeds: SpeedTold, row: SpeedRow) -> Record:
    """One row as a Record."""
    facts = {"prompt_length": row.prompt_length, "new_tokens": ask.new_tokens, "max_length": row.max_length}
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    environment = conditions()
    selector = digest([speeds.model, ask.script_args, facts])[:12]
    return Record(
        Job(
            Workload(speeds.model, ask.script, selector, parameters=speeds.parameters, script_args=ask.script_args),
            ask.device,
            ask.settings,
            ("generate",),
            iterations=ask.new_tokens,
            warmup=1,
            baseline=False,
            serve=Configuration(f"{speeds.model} {row.prompt_length}", ask.device, row.batch, multiprocess=False),
        ),
        "passed" if row.fits else "failed",
        row.short,
        failure="" if row.fits else "memory",
        timings=tuple(t for t in (row.first_token, row.per_token) if t),
        memory=MemoryUse(dram_peak_bytes=row.peak_bytes or 0, weight_bytes=row.weight_bytes, fits=row.fits),
        environment=environment,
        created=created,
        report={
            **document(ask, speeds, row), **facts, "kind": row.kind, "status": "passed", "created": created,
            "ttft_ms_p50": row.first_token.median_ns / 1e6 if row.first_token else None,
            "tpot_ms_p50": row.per_token.median_ns / 1e6,
        },
    )  # fmt: skip


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and 0 < int(part) < 10_000_000 for part in parts):
        raise UsageError(f"{option} {text!r}: give whole numbers above 0, such as 1,32.")
    return tuple(dict.fromkeys(int(part) for part in parts))
