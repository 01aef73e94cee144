"""The parts of a model's page that are worked out again from its Programs: memory over time, perf sheet, graph.

A Record holds figures, not Programs. Where a Job left its Programs on disk, every Record of the same fingerprints,
device and settings can be explained from them; where none did, the page says which command leaves them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from proveout.app import data, explorer_charts, tables, theme
from proveout.app.data import Board, Entry
from proveout.app.options import options
from proveout.app.tables import Column
from proveout.coding import to_json
from proveout.columns.words import number
from proveout.devices.registry import describe, settings_for
from proveout.report.drawing.graph import draw
from proveout.types import Record, Settings
from proveout.words import counted

if TYPE_CHECKING:
    from proveout.recording import Recorded

MOST_BOXES = 1500
"""Boxes that a browser still draws at once; a larger graph is offered as a file."""


def command(verb: str, entry: Entry) -> str:
    """What to type for a Record of the same model, device and settings; empty for a model of no script."""
    flat = entry.row
    if not flat.script:
        return ""
    picked = f"{flat.script}::{flat.selector}" if flat.selector else flat.script
    info = describe(flat.device)
    usual = to_json(settings_for(info.name) if info is not None else Settings())
    changed = [
        f"{k}={v}" for k, v in _settings(entry).items() if v != usual.get(k) and isinstance(v, (str, int, float))
    ]
    words = ["proveout", verb, picked, "--device", flat.device]
    words += ["--script-args", flat.script_args] if flat.script_args else []
    words += ["--weights", weights] if (weights := data.record(entry).job.workload.weights) else []
    words += [
        word for text in changed for word in ("--set", text.replace("=True", "=true").replace("=False", "=false"))
    ]
    if options().cache_dir:
        words += ["--cache-dir", str(options().cache_dir)]
    if verb == "perf":
        words += ["-o", f"perf/{flat.model.replace('::', '.')}"]
    return shlex.join(words)


def _settings(entry: Entry) -> dict[str, object]:
    values: dict[str, object] = json.loads(entry.row.settings)
    return values


def _programs(board: Board, entry: Entry) -> list[Recorded]:
    """The Programs on disk, or none and an explanation."""
    with st.spinner("Reading its Programs"):
        programs = data.recorded(board, entry)
    if programs:
        return programs
    if not entry.programs:
        theme.empty("There is no Program", "This run compiled nothing for a chip: it failed before, or ran elsewhere.")
    elif (info := describe(entry.row.device)) is None or info.times != "modelled":
        theme.empty("No modelled chip", f"{entry.row.device} has no model of time and memory. Use a sim device.")
    else:
        again = command("perf", entry)
        says = (
            "This command saves the Programs beside it, and this page then shows them:"
            if again
            else ("Run the task again on its page: its Programs are then kept.")
        )
        theme.empty("No compiled program saved for this result", f"A Record holds figures only. {says}", again)
    return []


def memory(board: Board, entry: Entry, record: Record) -> None:
    """Peaks from the Record; what lies where at every Step from its Programs."""
    use, flat = record.memory, entry.row
    if flat.l1_peak_bytes is not None:
        share = use.l1_peak_per_core_bytes / use.l1_per_core_bytes if use.l1_per_core_bytes else 0.0
        theme.tiles(
            [
                theme.Tile("Peak SRAM", number(use.l1_peak_bytes / 1e6) or "", "MB", "all cores; modelled", "modelled"),
                theme.Tile("Of a core's L1", f"{100 * share:.1f}", "%", use.peak_at, "modelled"),
                theme.Tile("Peak DRAM", number(use.dram_peak_bytes / 1e6) or "", "MB", "modelled", "modelled"),
                theme.Tile(
                    "Weights", number(use.weight_bytes / 1e6) or "", "MB", "on the device; modelled", "modelled"
                ),
                theme.Tile("Fits", "yes" if use.fits else "no", tone="good" if use.fits else "bad"),
            ]
        )
    programs = _programs(board, entry)
    if not programs:
        return
    from proveout.kernels.cost import memory_over_time

    one = _picked(programs)
    start = len(one.program.setup)
    points = list(memory_over_time(one.program, one.chip, one.settings))[start:]
    explorer_charts.show_memory(points, one.chip)
    rows = [
        {
            "step": i,
            "call": p.step.kernel,
            "module": p.step.origin.module,
            "l1_bytes": p.l1,
            "circular_bytes": p.circular,
            "dram_bytes": p.dram * one.chip.dram_banks,
            "refused": p.refused,
        }
        for i, p in enumerate(points, 1)
    ]
    columns = [
        Column("step", "Step", "number", "%d"),
        Column("call", "Call", width="medium"),
        Column("module", "Module"),
        Column("l1_bytes", "L1 of a core, B", "number", "localized"),
        Column("circular_bytes", "Circular buffers, B", "number", "localized"),
        Column("dram_bytes", "DRAM, B", "number", "localized"),
        Column("refused", "Does not fit", width="large"),
    ]
    tables.show(rows, columns, f"{flat.model}-memory")


def performance(board: Board, entry: Entry, record: Record) -> None:
    """Where the modelled time of a call goes, and what would save some."""
    programs = _programs(board, entry)
    if not programs:
        return
    from proveout.report.perf import view as perf_view
    from proveout.report.perf.advice import advise
    from proveout.report.perf.tt_csv import render_csv

    sheet = data.sheet(entry, programs, len(record.coverage.graph_breaks))
    low, high = (" ".join(tables.duration(sum(getattr(t, at) for t in sheet.times))) for at in ("low_ns", "high_ns"))
    missing = perf_view.without_host(sheet.num_hosted, sheet.num_breaks)
    figures: list[tuple[str, int, str]] = [
        ("On the chip" if missing else "One call", sheet.total_ns, f"between {low} and {high}"),
        ("Kernels", sheet.kernel_ns, f"{len(sheet.device_rows)} device operations"),
        ("Waits between them", sheet.wait_ns, "gaps and the host's dispatch"),
        ("Transfers", sheet.transfer_ns, f"{sum(row.kind == 'transfer' for row in sheet.rows)} at every call"),
    ]
    theme.row(theme.badge("modelled", "modelled"), theme.badge(missing.replace("`", "") or "nothing here is measured"))
    theme.tiles([theme.Tile(name, *tables.duration(ns), note, "modelled") for name, ns, note in figures])
    left, right = st.columns(2)
    with left, st.container(border=True):
        st.markdown("**Where the time goes**")
        explorer_charts.show_treemap(sheet)
        st.caption("Kernels and transfers by module; waits and host ops are not in it.")
    with right, st.container(border=True):
        st.markdown("**Roofline**")
        explorer_charts.show_roofline(sheet)
        st.caption("Size is time. Dashed: ttnn's performance model of the chip, by fidelity.")
    st.subheader("Perf sheet")
    document = perf_view.document(sheet, advise(programs))
    tables.show(_perf_rows(document), PERF_COLUMNS, f"{entry.row.model}-perf")
    tables.download(
        "As tt-perf-report reads it", render_csv(sheet), f"{entry.row.model}-ops_perf_results.csv", "text/csv"
    )
    _advice(document, f"{entry.row.model}-advice")


PERF_COLUMNS = [
    Column("op", "Operation", width="medium"),
    Column("us", "µs", "number", "%.4g"),
    Column("low_us", "from", "number", "%.4g", help="The prediction's interval."),
    Column("high_us", "to", "number", "%.4g"),
    Column("utilisation", "Utilisation", "number", "percent", help="PM ideal ÷ kernel × grid ÷ cores."),
    Column("bound", "Bound"),
    Column("cores", "Cores", "number", "%d"),
    Column("fidelity", "Fidelity"),
    Column("inputs", "Inputs", width="medium"),
    Column("outputs", "Outputs", width="medium"),
    Column("module", "Module"),
    Column("source", "Line"),
    Column("calibrated", "Calibrated", help="Whether published measurements back the prediction."),
]


def _perf_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations of a call, the longest first."""
    rows = [
        {
            **row,
            **{f"{name}us": _us(row[f"{name}ns"]) for name in ("", "low_", "high_")},
            "inputs": " · ".join(row["inputs"]),
            "outputs": " · ".join(row["outputs"]),
            "calibrated": {True: "yes", False: "no"}.get(row["calibrated"], ""),
        }
        for row in document["rows"]
    ]
    return sorted(rows, key=lambda row: -(row["us"] or 0))


ADVICE_COLUMNS = [
    Column("change", "Change", width="medium"),
    Column("saves_us", "Saves µs", "number", "%.4g"),
    Column("then_us", "Then µs", "number", "%.4g"),
    Column("how", "How", width="large"),
    Column("places", "Where", width="large"),
]


def _advice(document: Mapping[str, Any], key: str) -> None:
    st.subheader("What would save time")
    for line in document["notes"]:
        st.caption(f"No setting saves this: {line['what']}, {_us(line['takes_ns']):.4g} µs at most. {line['why']}")
    if not document["advice"]:
        st.caption("None of the changes we tried would save time.")
        return
    st.caption("Each saving is on top of those above it; the Program was planned again for each. Modelled.")
    advice = [
        {
            **line,
            "saves_us": _us(line["saves_ns"]),
            "then_us": _us(line["then_ns"]),
            "places": ", ".join(line["places"]),
        }
        for line in document["advice"]
    ]
    tables.show(advice, ADVICE_COLUMNS, key)


def graph(board: Board, entry: Entry, record: Record) -> None:
    """The Program as it runs at every call: device, transfers, host."""
    programs = _programs(board, entry)
    if not programs:
        return
    from proveout.compiler.dump import program_nodes

    one = _picked(programs)
    nodes = program_nodes(one.program)
    svg = draw(nodes, f"{entry.row.model} on {one.device}")
    st.caption(f"{counted(len(nodes), 'box', 'boxes')}. Hover over one for its call, its module and the model's line.")
    with st.container(horizontal=True):
        tables.download("Download SVG", svg, f"{entry.row.model}-graph.svg", "image/svg+xml")
        tables.download("Program as text", str(one.program), f"{entry.row.model}-program.txt", "text/plain")
    if len(nodes) > MOST_BOXES:
        theme.empty("A large graph", f"{len(nodes):,} boxes are more than a page draws well: download the SVG.")
        return
    st.iframe(f"<!doctype html><body style='margin:0'>{svg}</body>", height=720)


def _picked(programs: Sequence[Recorded]) -> Recorded:
    """One of a model's Programs."""
    if len(programs) == 1:
        return programs[0]
    names = [f"{i}: {one.program.name}, {counted(len(one.program.body), 'Step')}" for i, one in enumerate(programs, 1)]
    return programs[names.index(st.selectbox("Program", names))]


def _us(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e3
