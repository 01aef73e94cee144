"""The table of flat columns. A new one is a field of `Row`; nothing else has to know it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN
from proveout.coding import from_json, hints_of, to_json
from proveout.columns.column import Column, OnBoard, Shown, column, sql_type
from proveout.columns.read import (
    bound_ms,
    coverage,
    l1_peak,
    load_words,
    median_ms,
    memory,
    numerics,
    parameters,
    served,
    source,
    verdict,
)
from proveout.columns.words import (
    ShownStatus,
    called,
    corpus,
    latency_ms,
    number,
    numbers,
    off_host,
    pcc_text,
    status_words,
)
from proveout.types import Judgement, Record, Source

# ------------------------------------------------------------------------------------- words of values


def _ops(total: int | None, unique: int | None) -> str | None:
    return None if total is None else f"{total:,} ({unique:,})"


def _calls_per_second(flat: Row) -> str | None:
    return number(1e3 / flat.compiled_ms) if flat.compiled_ms else None


def _percent(flat: Row) -> str | None:
    return None if flat.accuracy is None else f"{flat.accuracy:.2f}"


def _megabytes(flat: Row) -> float | None:
    return None if flat.l1_peak_bytes is None else flat.l1_peak_bytes / 1e6


def _state(flat: Row) -> str:
    words = status_words(flat)
    return f"{words.mark} {words.words}"


# ------------------------------------------------------------------------------------------- the table


# fmt: off
@dataclass(frozen=True)
class Row:
    """One Record as flat columns: what reports print and the table `records` holds; None is unknown.

    A field's type is its type in SQL, its place that in SQL and CSV; `order` is that in the table of models and on the
    board."""

    key: str = column(lambda r: r.job.key)
    model: str = column(
        lambda r: r.job.workload.name,
        (Shown(
            "Model", "Model",
            "Name of the model, and the arguments that its script was given; `--small` is a reduced size, not the "
            "published one.", called, 10, numeric=False, drop=0,
        ),),
        (OnBoard("Model", 20, "name", width="medium", pinned=True, help="Click it to open its page.", value=called),),
    )
    script: str = column(
        lambda r: r.job.workload.script,
        (Shown(
            "Corpus", "Corpus", "The folder of the model's script.", corpus, 20, numeric=False, distinguishes=True,
        ),),
        (OnBoard("Corpus", 30, width="small", help="The folder of the model's script.", value=corpus, key="corpus"),),
    )
    script_args: str = column(lambda r: r.job.workload.script_args)
    selector: str = column(lambda r: r.job.workload.selector)
    class_name: str = column(lambda r: r.job.workload.class_name)
    device: str = column(
        lambda r: r.job.device,
        (Shown(
            "Device", "Device",
            "The device the model was compiled for, and its numbers: precision (`model` keeps the model's own dtypes), "
            "the weights' format where it is another, and on `sim` the numerics: `fast` (torch's kernels) or "
            "`faithful` (the chip's rules). What ran it, where that was not our compiler: `eager`, "
            "`inductor` or `ort`. `training` where it is called in training mode, since its script takes gradients.",
            lambda r: f"{r.device} {numbers(r)}", 30, numeric=False, drop=9,
        ),),
        (OnBoard("Device", 40, width="small"),),
    )
    precision: str = column(
        lambda r: r.job.settings.precision, (),
        (OnBoard(
            "Numbers", 50, help="Precision, the format of weights and cache and, on sim, the numerics.", value=numbers,
            key="numbers",
        ),),
    )
    weights: str = column(lambda r: r.job.settings.weights if not r.job.settings.overrides else "mixed")
    numerics: str | None = column(lambda r: numerics(r.job))
    runtime: str = column(lambda r: r.job.runtime)
    load: str | None = column(load_words)
    random_weights: str | None = column(lambda r: ", ".join(r.job.workload.random_weights) or None)
    mode: str = column(lambda r: r.job.workload.mode)
    did: str = column(
        lambda r: "+".join(r.job.do), (),
        (OnBoard("Did", 600, help="What the run was to do: check, benchmark, perf …"),),
    )
    status: ShownStatus = column(
        lambda r: "compiled" if r.status == "passed" and r.job.do == ("compile",) else r.status,
        (Shown(
            "Run Success", "Status",
            "✅ it compiled, ran, and every output is within its PCC threshold; ✘ it did not, see Reason; ✘ (expected) "
            "it failed and its script is labelled `expect::fail`; ◐ (partial) it was interrupted; — (not run) it was "
            "compiled only.", lambda r: status_words(r).symbol, 40, numeric=False, drop=0,
        ),),
        (OnBoard(
            "Status", 10, "status", width=150, help="✓ it ran and every output is close enough; see the page for why.",
            value=_state, key="state",
        ),),
    )
    reason: str = column(
        lambda r: r.reason,
        (Shown(
            "Reason", "Reason", "Why a run failed, or what else there is to say about it.", None, 900,
            numeric=False, drop=0, empty="", places=("markdown",),
        ),),
        (OnBoard("Reason", 900, width="large"),),
    )  # terminal and page tell the reason in lines of its own
    failure: str = column(lambda r: r.failure)
    parameters: int | None = column(
        lambda r: parameters(r.job),
        (Shown(
            "Parameters", "Params", "Number of the model's parameters.", None, 50, drop=3, places=("terminal", "html"),
        ),),
        (OnBoard("Parameters", 140, "number", "localized"),),
    )
    ops_before: int | None = column(
        coverage("before"),
        (Shown(
            "Torch Ops Before (Unique Ops)", "Ops before",
            "ATen operations in all graphs of the model before conversion; in parentheses, the different ones.",
            lambda r: _ops(r.ops_before, r.ops_before_unique), 60, drop=4,
        ),),
        (),
    )
    ops_before_unique: int | None = column(coverage("before_unique"))
    ops_remain: int | None = column(
        coverage("remain"),
        (Shown(
            "Torch Ops Remain (Unique Ops)", "Ops remain",
            "ATen operations that stay on the host after conversion; in parentheses, the different ones.",
            lambda r: _ops(r.ops_remain, r.ops_remain_unique), 70, drop=7,
        ),),
        (OnBoard(
            "Off the host", 60, "share", help="Share of ATen ops that no longer run on the host.", value=off_host,
            key="coverage",
        ),),
    )
    ops_remain_unique: int | None = column(coverage("remain_unique"))
    transfers: int | None = column(
        coverage("num_transfers"),
        (Shown(
            "To/From Device Ops", "Transfers", "Transfers between host and device at every call.", None, 80, drop=5,
        ),),
        (OnBoard("Transfers", 120, "number", "%d", help="Between host and device at every call."),),
    )
    graphs: int | None = column(coverage("num_graphs"))
    pcc: float | None = column(
        lambda r: r.pcc,
        (Shown(
            "PCC", "PCC",
            "Pearson correlation of the compiled model's outputs with the reference; the lowest of all outputs.",
            lambda r: pcc_text(r.pcc), 140, drop=8,
        ),),
        (OnBoard("PCC", 70, "pcc", help="Lowest PCC of all outputs against the reference."),),
    )
    accuracy: float | None = column(
        lambda r: r.accuracy,
        (Shown(
            "Accuracy (%)", "Accuracy %",
            "Accuracy of the compiled model on the labelled data of its script, where it has any, in per cent.",
            _percent, 150, drop=2,
        ),),
        (),
    )
    fast_trusted: bool | None = column(lambda r: r.trust.trusted if r.trust else None)
    accuracy_eager: float | None = column(lambda r: r.accuracy_eager)
    original_ms: float | None = column(
        median_ms("eager"),
        (Shown(
            "Original Run Time (ms)", "Original ms",
            "Median time of one call of the original model in eager PyTorch on this machine's CPU.",
            None, 90, kind="original_kind", drop=6,
        ),),
        (OnBoard(
            "Eager CPU ms", 110, "number", "%.4g", help="Measured: the original model on this machine's CPU.",
            value=lambda r: r.original_ms if r.original_kind == "measured" else None, key="eager_ms",
        ),),
    )
    original_kind: Source | None = column(source("eager"))
    original_low_ms: float | None = column(bound_ms("eager", 0))
    original_high_ms: float | None = column(bound_ms("eager", 1))
    original_verdict: Judgement | None = column(verdict("eager"))
    compiled_ms: float | None = column(
        median_ms("compiled"),
        (Shown(
            "Compiled Run Time (ms)", "Compiled ms",
            "Median time of one call of the compiled model on the device. `measured` comes from a clock, "
            "`modelled` from the embedded model of the chip; a modelled time is a prediction. Where ops stay on the "
            "host, it is the chip's predicted time plus the host's measured time.",
            None, 100, kind="compiled_kind", drop=10,
        ),
        Shown(
            "Calls per Second", "Calls/s", "One second divided by the compiled run time; of the same kind as that.",
            _calls_per_second, 120, kind="compiled_kind", places=("terminal",),
        )),
        (OnBoard(
            "Modelled ms", 80, "number", "%.4g",
            help="Predicted by the model of the chip. Where ops stay on the host, their measured time is in it.",
            value=lambda r: latency_ms(r, "modelled"), key="modelled_ms",
        ),
        OnBoard(
            "Measured ms", 100, "number", "%.4g", help="Median by a clock, on the device of this row.",
            value=lambda r: latency_ms(r, "measured"), key="measured_ms",
        )),
    )
    compiled_kind: Source | None = column(source("compiled"))
    compiled_low_ms: float | None = column(bound_ms("compiled", 0))
    compiled_high_ms: float | None = column(bound_ms("compiled", 1))
    compiled_verdict: Judgement | None = column(verdict("compiled"))
    host_part_ms: float | None = column(
        median_ms("host"),
        (Shown(
            "Of it on the Host (ms)", "Host part ms",
            "The part of the compiled run time that ops on the host and Python between graphs take, measured on this "
            "machine's CPU.", None, 110, drop=6, places=("terminal", "html"),
        ),),
        (OnBoard(
            "Of it on the host, ms", 85, "number", "%.4g",
            help="Measured: what ops on the host and Python between graphs take of a modelled time.",
        ),),
    )
    host_ms: float | None = column(median_ms("simulation"))
    throughput: float | None = column(
        served("throughput_avg"),
        (Shown(
            "Throughput (per second)", "Served/s",
            "Items that all workers together completed per second, where the model was served; measured on this "
            "machine.", lambda r: number(r.throughput), 130, drop=9, places=("terminal", "html"),
        ),),
        (),
    )
    throughput_low: float | None = column(served("throughput_avg_low"))
    throughput_high: float | None = column(served("throughput_avg_high"))
    first_token_ms: float | None = column(
        median_ms(FIRST_TOKEN),
        (Shown(
            "Time to First Token (ms)", "TTFT ms",
            "Median time from the start of a request or a generation to its first token; under load it counts from the "
            "intended start.", None, 132, kind="first_token_kind", drop=8, places=("terminal", "html"),
        ),),
        (),
    )
    first_token_kind: Source | None = column(source(FIRST_TOKEN))
    first_token_low_ms: float | None = column(bound_ms(FIRST_TOKEN, 0))
    first_token_high_ms: float | None = column(bound_ms(FIRST_TOKEN, 1))
    first_token_verdict: Judgement | None = column(verdict(FIRST_TOKEN))
    per_token_ms: float | None = column(
        median_ms(PER_TOKEN),
        (Shown(
            "Time per Output Token (ms)", "TPOT ms",
            "Median over requests of the time after the first token, divided by the tokens after the first.",
            None, 134, kind="per_token_kind", drop=8, places=("terminal", "html"),
        ),),
        (),
    )
    per_token_kind: Source | None = column(source(PER_TOKEN))
    per_token_low_ms: float | None = column(bound_ms(PER_TOKEN, 0))
    per_token_high_ms: float | None = column(bound_ms(PER_TOKEN, 1))
    per_token_verdict: Judgement | None = column(verdict(PER_TOKEN))
    tokens_per_s: float | None = column(served("tokens_per_s"))
    goodput: float | None = column(
        served("goodput"),
        (Shown(
            "Goodput (per second)", "Goodput/s",
            "Requests per second that kept every limit of `slo`; of the same kind as the times.",
            lambda r: number(r.goodput), 136, drop=8, places=("terminal", "html"),
        ),),
        (),
    )
    slo: str | None = column(lambda r: (r.report or {}).get("slo") or None)
    compile_s: float | None = column(lambda r: sum(seconds for _, seconds in r.compile_s) if r.compile_s else None)
    l1_peak_bytes: int | None = column(
        l1_peak,
        (Shown(
            "Peak SRAM usage (in MB)", "SRAM MB",
            "Most on-chip memory (L1 of all cores) in use at once, with tile padding, in 10⁶ bytes; modelled.",
            lambda r: number(_megabytes(r)), 170, drop=3,
        ),),
        (OnBoard(
            "SRAM MB", 130, "number", "%.3g", help="Peak of all cores' L1, in 10⁶ bytes. Modelled.", value=_megabytes,
            key="sram_mb",
        ),),
    )
    dram_peak_bytes: int | None = column(memory("dram_peak_bytes"))
    weight_bytes: int | None = column(memory("weight_bytes"))
    fits: bool | None = column(
        memory("fits"),
        (Shown(
            "Fits in memory", "Fits",
            "Whether the allocator's simulation could place every tensor of the Program on the device.",
            None, 160, numeric=False, drop=2,
        ),),
        (),
    )
    created: str = column(
        lambda r: r.created, (),
        (OnBoard("Made", 800, value=lambda r: r.created[:16].replace("T", " ")),),
    )
    machine: str = column(
        lambda r: dict(r.environment).get("machine", ""), (),
        (OnBoard("Machine", 700, width="small"),),
    )
    labels: str = column(lambda r: json.dumps(dict(to_json(r.job.workload.labels)), ensure_ascii=False))
    settings: str = column(lambda r: json.dumps(to_json(r.job.settings)))
# fmt: on


COLUMNS: tuple[Column, ...] = tuple(
    dataclasses.replace(field.metadata["column"], name=field.name, sql=sql_type(hints_of(Row)[field.name]))
    for field in dataclasses.fields(Row)
)


def row(record: Record) -> Row:
    return Row(**{column.name: column.read(record) for column in COLUMNS})


def row_of(document: Mapping[str, Any]) -> Row:
    """The row in the JSON that a verb wrote of a Record; what else is there is left."""
    return from_json(Row, {column.name: document[column.name] for column in COLUMNS})


def shown() -> list[Shown]:
    """The columns of the table of models, from left to right."""
    columns = [dataclasses.replace(shown, key=column.name) for column in COLUMNS for shown in column.shown]
    return sorted(columns, key=lambda shown: shown.order)


def on_board() -> list[OnBoard]:
    """What the explorer's board has of a flat row, from left to right."""
    columns = [
        dataclasses.replace(drawn, key=drawn.key or column.name) for column in COLUMNS for drawn in _drawn(column)
    ]
    return sorted(columns, key=lambda drawn: drawn.order)


def _drawn(column: Column) -> tuple[OnBoard, ...]:
    if column.board is not None:
        return column.board
    return tuple(OnBoard(s.short, s.order, "number" if s.numeric else "text", help=s.explain) for s in column.shown)
