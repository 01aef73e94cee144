"""The table of flat columns. A new one is a row here; nothing else has to know it.

The order is that of SQL and CSV; `order` is that of the table of models and of the board.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN
from proveout.coding import to_json
from proveout.columns.column import Column, OnBoard, Shown
from proveout.columns.read import coverage, median_ms, memory, numerics, parameters, served, time
from proveout.columns.words import (
    Row,
    called,
    corpus,
    latency_ms,
    number,
    numbers,
    off_host,
    pcc_text,
    status_words,
)
from proveout.types import Record


def row(record: Record) -> Row:
    """One Record as flat columns: what reports print and the table `records` holds; None is unknown."""
    return {column.name: column.read(record) for column in COLUMNS}


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


# ------------------------------------------------------------------------------------- words of values


def _ops(which: str) -> Callable[[Row], str | None]:
    def show(flat: Row) -> str | None:
        total = flat[f"ops_{which}"]
        return None if total is None else f"{total:,} ({flat[f'ops_{which}_unique']:,})"

    return show


def _calls_per_second(flat: Row) -> str | None:
    return number(1e3 / flat["compiled_ms"]) if flat["compiled_ms"] else None


def _percent(flat: Row) -> str | None:
    return None if flat["accuracy"] is None else f"{flat['accuracy']:.2f}"


def _megabytes(flat: Row) -> float | None:
    return None if flat["l1_peak_bytes"] is None else flat["l1_peak_bytes"] / 1e6


def _state(flat: Row) -> str:
    words = status_words(flat)
    return f"{words.mark} {words.words}"


# ------------------------------------------------------------------------------------------- the table

COLUMNS: tuple[Column, ...] = (
    Column("key", "varchar", lambda r: r.job.key),
    Column(
        "model", "varchar", lambda r: r.job.workload.name,
        (Shown(
            "Model", "Model",
            "Name of the model, and the arguments that its script was given; `--small` is a reduced size, not the "
            "published one.", called, 10, numeric=False, drop=0,
        ),),
        (OnBoard("Model", 20, "name", width="medium", pinned=True, help="Click it to open its page.", value=called),),
    ),
    Column(
        "script", "varchar", lambda r: r.job.workload.script,
        (Shown(
            "Corpus", "Corpus", "The folder of the model's script.", corpus, 20, numeric=False, distinguishes=True,
        ),),
        (OnBoard("Corpus", 30, width="small", help="The folder of the model's script.", value=corpus, key="corpus"),),
    ),
    Column("script_args", "varchar", lambda r: r.job.workload.script_args),
    Column("selector", "varchar", lambda r: r.job.workload.selector),
    Column("class_name", "varchar", lambda r: r.job.workload.class_name),
    Column(
        "device", "varchar", lambda r: r.job.device,
        (Shown(
            "Device", "Device",
            "The device the model was compiled for, and its numbers: precision (`model` keeps the model's own dtypes), "
            "the weights' format where it is another, and on `sim` the numerics: `fast` (torch's kernels) or "
            "`faithful` (the chip's rules). What ran it, where that was not our compiler: `eager`, "
            "`inductor` or `ort`.",
            lambda r: f"{r['device']} {numbers(r)}", 30, numeric=False, drop=9,
        ),),
        (OnBoard("Device", 40, width="small"),),
    ),
    Column(
        "precision", "varchar", lambda r: r.job.settings.precision, (),
        (OnBoard(
            "Numbers", 50, help="Precision, the weights' format and, on sim, the numerics.", value=numbers,
            key="numbers",
        ),),
    ),
    Column("weights", "varchar", lambda r: r.job.settings.weights if not r.job.settings.overrides else "mixed"),
    Column("numerics", "varchar", lambda r: numerics(r.job)),
    Column("runtime", "varchar", lambda r: r.job.runtime),
    Column("load", "varchar", lambda r: r.job.serve and r.job.serve.words),
    Column("random_weights", "varchar", lambda r: ", ".join(r.job.workload.random_weights) or None),
    Column("mode", "varchar", lambda r: r.job.workload.mode),
    Column(
        "did", "varchar", lambda r: "+".join(r.job.do), (),
        (OnBoard("Did", 600, help="What the run was to do: check, benchmark, perf …"),),
    ),
    Column(
        "status", "varchar", lambda r: r.status,
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
    ),
    Column(
        "reason", "varchar", lambda r: r.reason,
        (Shown(
            "Reason", "Reason", "Why a run failed, or what else there is to say about it.", None, 900,
            numeric=False, drop=0, empty="", places=("markdown",),
        ),),
        (OnBoard("Reason", 900, width="large"),),
    ),  # terminal and page tell the reason in lines of its own
    Column("failure", "varchar", lambda r: r.failure),
    Column(
        "parameters", "bigint", lambda r: parameters(r.job),
        (Shown(
            "Parameters", "Params", "Number of the model's parameters.", None, 50, drop=3, places=("terminal", "html"),
        ),),
        (OnBoard("Parameters", 140, "number", "localized"),),
    ),
    Column(
        "ops_before", "bigint", coverage("before"),
        (Shown(
            "Torch Ops Before (Unique Ops)", "Ops before",
            "ATen operations in all graphs of the model before conversion; in parentheses, the different ones.",
            _ops("before"), 60, drop=4,
        ),),
        (),
    ),
    Column("ops_before_unique", "bigint", coverage("before_unique")),
    Column(
        "ops_remain", "bigint", coverage("remain"),
        (Shown(
            "Torch Ops Remain (Unique Ops)", "Ops remain",
            "ATen operations that stay on the host after conversion; in parentheses, the different ones.",
            _ops("remain"), 70, drop=7,
        ),),
        (OnBoard(
            "Off the host", 60, "share", help="Share of ATen ops that no longer run on the host.", value=off_host,
            key="coverage",
        ),),
    ),
    Column("ops_remain_unique", "bigint", coverage("remain_unique")),
    Column(
        "transfers", "bigint", coverage("num_transfers"),
        (Shown(
            "To/From Device Ops", "Transfers", "Transfers between host and device at every call.", None, 80, drop=5,
        ),),
        (OnBoard("Transfers", 120, "number", "%d", help="Between host and device at every call."),),
    ),
    Column("graphs", "bigint", coverage("num_graphs")),
    Column(
        "pcc", "double", lambda r: r.pcc,
        (Shown(
            "PCC", "PCC",
            "Pearson correlation of the compiled model's outputs with the reference; the lowest of all outputs.",
            lambda r: pcc_text(r["pcc"]), 140, drop=8,
        ),),
        (OnBoard("PCC", 70, "pcc", help="Lowest PCC of all outputs against the reference."),),
    ),
    Column(
        "accuracy", "double", lambda r: r.accuracy,
        (Shown(
            "Accuracy (%)", "Accuracy %",
            "Accuracy of the compiled model on the labelled data of its script, where it has any, in per cent.",
            _percent, 150, drop=2,
        ),),
        (),
    ),
    Column("fast_trusted", "boolean", lambda r: r.trust and r.trust.trusted),
    Column("accuracy_eager", "double", lambda r: r.accuracy_eager),
    *time(
        "original", "eager",
        (Shown(
            "Original Run Time (ms)", "Original ms",
            "Median time of one call of the original model in eager PyTorch on this machine's CPU.",
            None, 90, kind="original_kind", drop=6,
        ),),
        (OnBoard(
            "Eager CPU ms", 110, "number", "%.4g", help="Measured: the original model on this machine's CPU.",
            value=lambda r: r["original_ms"] if r["original_kind"] == "measured" else None, key="eager_ms",
        ),),
    ),
    *time(
        "compiled", "compiled",
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
            "Modelled ms", 80, "number", "%.4g", help="Predicted by the model of the chip; no clock ran.",
            value=lambda r: latency_ms(r, "modelled"), key="modelled_ms",
        ),
        OnBoard(
            "Measured ms", 100, "number", "%.4g", help="Median by a clock, on the device of this row.",
            value=lambda r: latency_ms(r, "measured"), key="measured_ms",
        )),
    ),
    Column(
        "host_part_ms", "double", median_ms("host"),
        (Shown(
            "Of it on the Host (ms)", "Host part ms",
            "The part of the compiled run time that ops on the host and Python between graphs take, measured on this "
            "machine's CPU.", None, 110, drop=6, places=("terminal", "html"),
        ),),
        (),
    ),
    Column("host_ms", "double", median_ms("simulation")),
    Column(
        "throughput", "double", served("throughput_avg"),
        (Shown(
            "Throughput (per second)", "Served/s",
            "Items that all workers together completed per second, where the model was served; measured on this "
            "machine.", lambda r: number(r["throughput"]), 130, drop=9, places=("terminal", "html"),
        ),),
        (),
    ),
    Column("throughput_low", "double", served("throughput_avg_low")),
    Column("throughput_high", "double", served("throughput_avg_high")),
    *time(
        "first_token", FIRST_TOKEN,
        (Shown(
            "Time to First Token (ms)", "TTFT ms",
            "Median time from the start of a request or a generation to its first token; under load it counts from the "
            "intended start.", None, 132, kind="first_token_kind", drop=8, places=("terminal", "html"),
        ),),
        (),
    ),
    *time(
        "per_token", PER_TOKEN,
        (Shown(
            "Time per Output Token (ms)", "TPOT ms",
            "Median over requests of the time after the first token, divided by the tokens after the first.",
            None, 134, kind="per_token_kind", drop=8, places=("terminal", "html"),
        ),),
        (),
    ),
    Column("tokens_per_s", "double", served("tokens_per_s")),
    Column(
        "goodput", "double", served("goodput"),
        (Shown(
            "Goodput (per second)", "Goodput/s",
            "Requests per second that kept every limit of `slo`; of the same kind as the times.",
            lambda r: number(r["goodput"]), 136, drop=8, places=("terminal", "html"),
        ),),
        (),
    ),
    Column("slo", "varchar", lambda r: (r.report or {}).get("slo") or None),
    Column("compile_s", "double", lambda r: sum(seconds for _, seconds in r.compile_s) if r.compile_s else None),
    Column(
        "l1_peak_bytes", "bigint", memory("l1_peak_bytes"),
        (Shown(
            "Peak SRAM usage (in MB)", "SRAM MB",
            "Most on-chip memory (L1 of all cores) in use at once, with tile padding, in 10⁶ bytes; modelled.",
            lambda r: number(_megabytes(r)), 170, drop=3,
        ),),
        (OnBoard(
            "SRAM MB", 130, "number", "%.3g", help="Peak of all cores' L1, in 10⁶ bytes. Modelled.", value=_megabytes,
            key="sram_mb",
        ),),
    ),
    Column("dram_peak_bytes", "bigint", memory("dram_peak_bytes")),
    Column("weight_bytes", "bigint", memory("weight_bytes")),
    Column(
        "fits", "boolean", memory("fits"),
        (Shown(
            "Fits in memory", "Fits",
            "Whether the allocator's simulation could place every tensor of the Program on the device.",
            None, 160, numeric=False, drop=2,
        ),),
        (),
    ),
    Column(
        "created", "varchar", lambda r: r.created, (),
        (OnBoard("Made", 800, value=lambda r: r["created"][:16].replace("T", " ")),),
    ),
    Column(
        "machine", "varchar", lambda r: dict(r.environment).get("machine", ""), (),
        (OnBoard("Machine", 700, width="small"),),
    ),
    Column("labels", "varchar", lambda r: json.dumps(dict(to_json(r.job.workload.labels)), ensure_ascii=False)),
    Column("settings", "varchar", lambda r: json.dumps(to_json(r.job.settings))),
)  # fmt: skip
