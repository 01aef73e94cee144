"""Stage 12, for causal language models: prefill and decode Programs with a cache, their tokens, times and memory."""

from __future__ import annotations

from typing import Any

from proveout import generation
from proveout.bringup.data import DecoderData, DecoderRow
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.errors import UsageError
from proveout.generation.speed import SpeedRow
from proveout.words import counted, rounded

TOP5 = 0.95
"""Share of steps where eager's token should be among the device's five most likely."""


def run(subject: Subject, files: Files) -> StageResult:
    model = subject.model
    if not is_causal_model(model):
        return StageResult(f"{type(model).__name__} is not a causal language model of transformers", skipped=True)
    try:
        result = generation.overview(model, subject.bringup.device, subject.bringup.settings)
    except UsageError as refusal:  # a cache of a kind that we do not make
        return StageResult(str(refusal), skipped=True)
    for name, program in result.programs.items():
        files.text(f"programs/{name.replace(' ', '_')}.txt", str(program))
    rows = [_row(row) for row in result.rows]
    close, off = result.agreement, result.agreement.top5 < TOP5
    pcc = "undefined" if close.pcc is None else f"{close.pcc:.6f}"
    files.json("decoder.json", {"rows": rows, "agreement": close, "equal_tokens": result.equal_tokens})
    one = rows[0]
    findings = [
        f"given eager's tokens, {close.steps} steps: top-1 {close.top1:.1%}, top-5 {close.top5:.1%},"
        f" PCC of the logits {pcc}",
        f"generated alone, {result.equal_tokens} of {result.new_tokens} tokens are eager's before the first difference",
        *(_sentence(row) for row in rows),
        *result.notes,
    ]
    short = [row.short for row in rows if not row.fits]
    step = "Run: proveout generate MODEL.py --set precision=model, and see whether the tokens are eager's then."
    return StageResult(
        f"{rounded(one.tokens_per_s)} tokens/s for one user ({rounded(one.slowest)} to {rounded(one.quickest)},"
        f" modelled); top-1 {close.top1:.1%}, top-5 {close.top5:.1%}",
        (*findings, *(f"does not fit: {reason}" for reason in short)),
        step if off else "",
        attention=off or bool(short),
        data=DecoderData(tuple(rows), close, result.equal_tokens, result.new_tokens),
    )


def is_causal_model(model: Any) -> bool:
    """Whether it generates text, one token after the other and without an encoder."""
    can_generate, config = getattr(model, "can_generate", None), getattr(model, "config", object())
    if not callable(can_generate) or not hasattr(config, "get_text_config") or not can_generate():
        return False
    return not getattr(config, "is_encoder_decoder", False) and model.get_output_embeddings() is not None


def _row(row: SpeedRow) -> DecoderRow:
    low, high = row.per_token.interval_ns or (row.per_token.median_ns,) * 2
    return DecoderRow(
        users=row.batch, prompt=row.prompt_length, positions=row.max_length,
        ttft_ns=row.first_token.median_ns if row.first_token else None,
        ttft_interval_ns=row.first_token.interval_ns if row.first_token else None,
        tpot_ns=row.per_token.median_ns, tpot_interval_ns=row.per_token.interval_ns,
        tokens_per_s=row.per_user, slowest=1e9 / high, quickest=1e9 / low,
        weight_bytes=row.weight_bytes, cache_bytes=row.cache_bytes, dram_bytes=row.dram_bytes,
        longest_context=row.longest_context, largest_batch=row.largest_batch, fits=row.fits,
        short=row.short, chips=row.num_chips,
    )  # fmt: skip


def _sentence(row: DecoderRow) -> str:
    context = "" if row.longest_context is None else f"a context of {row.longest_context:,} or "
    first = "no time to the first token, in which the host has a part"
    if row.ttft_ns is not None:
        first = f"{rounded(row.ttft_ns / 1e6)} ms to the first token"
    return (
        f"{counted(row.users, 'user')}: {first} after {row.prompt},"
        f" {rounded(row.tpot_ns / 1e6)} ms for each of the next (modelled); weights"
        f" {row.weight_bytes / 1e6:,.4g} MB, cache of {row.positions} positions"
        f" {row.cache_bytes / 1e6:,.3g} MB; {context}{row.largest_batch:,} such users fit"
    )
