"""The right half of a task's page: stages, times, output and log while a run goes on, and its figures afterwards."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from html import escape
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from proveout.app import links, theme
from proveout.app.runs import Run, Seen, trouble
from proveout.app.tasks import STAGES, TASKS, TaskRequest
from proveout.app.theme import Tile, badge
from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN
from proveout.coding import to_json
from proveout.columns.words import weakness
from proveout.store import machine
from proveout.types import Record, Source, Timing
from proveout.words import rounded

SAYS: dict[str, str] = {
    "": "starting the worker",
    "load": "loading the weights, one call in eager mode",
    "compile": "capturing and compiling",
    "check": "first iteration on the device; its output is compared with eager mode",
    "cpu": "timing eager mode on this machine's CPU",
    "warm-up": "iterations that are not counted",
    "run": "timed iterations",
}


NAMES = {"": "start", "cpu": "CPU"}
"""A stage as a page writes it, where that is not its own name."""


def show(run: Run) -> None:
    """Everything about a run, as far as it has come."""
    seen = run.seen()
    _stages(run, seen)
    went_wrong = _what_went_wrong(run)
    if seen.output:
        with st.container(border=True):
            st.markdown("**Output**")
            _OUTPUTS[TASKS[run.request.task].kind](run.request, seen.output)
    if not went_wrong and seen.record is not None and not run.running:
        _figures(run.request, seen, seen.record)
    if seen.samples:
        _times(run.id, seen)
    log = run.log().strip()
    with st.expander("Log", icon=":material/terminal:", expanded=trouble(run) is not None):
        st.code(log or "The worker has printed nothing.", language=None, wrap_lines=True, height=260 if log else None)


# ------------------------------------------------------------------------------------------------------------- progress


def _stages(run: Run, seen: Seen) -> None:
    names = [name for name in STAGES if name != "cpu" or run.request.baseline]
    at = names.index(seen.stage) if seen.stage in names else -1
    finished = not run.running and not run.stopped and trouble(run) is None
    now = "now" if run.running else "failed"
    states = ["done" if finished or n < at else now if n == at else "" for n in range(len(names))]
    cells = [
        f'<div class="po-stage {state}">{escape(NAMES.get(name, name))}</div>' for name, state in zip(names, states)
    ]
    st.html(f'<div class="po-stages" role="status">{"".join(cells)}</div>')
    if run.running:
        detail = f" · after the pass {seen.passes[-1]}" if seen.stage == "compile" and seen.passes else ""
        done = sum(not warm for what, _, warm in seen.samples if (what == "eager") == (seen.stage == "cpu"))
        wanted = run.request.iterations
        counted = f"{done} of {wanted}" if done <= wanted else f"{done}, until there are enough samples"
        detail += f" · {counted}" if seen.stage in ("cpu", "run") else ""
        elapsed = time.monotonic() - run.began
        name = NAMES.get(seen.stage, seen.stage)
        st.caption(f"{name[0].upper()}{name[1:]}: {SAYS[seen.stage]}{detail} · {elapsed:.0f} s")


def _what_went_wrong(run: Run) -> bool:
    if run.stopped and run.seen().record is None:
        st.info(
            f"Stopped in the stage {NAMES.get(run.seen().stage, run.seen().stage)}. Nothing was stored.",
            icon=":material/stop:",
        )
        return True
    failures = trouble(run)
    if failures is None:
        return False
    with st.container(border=True):
        theme.row(badge(failures.title, "bad"), badge(f"stage: {failures.where}"))
        st.markdown(f"{_plain(failures.what)}\n\n**Next:** {failures.next_step}")
    return True


def _plain(text: str) -> str:
    """A message as it is, in Markdown; of installed packages' files only the package's own part."""
    text = re.sub(r"\S*/site-packages/", "", text)
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|~$" else c for c in text)


# ---------------------------------------------------------------------------------------------------------------- times

SERIES: dict[str, tuple[str, str]] = {
    "eager": ("CPU, eager mode (measured)", theme.MEASURED),
    "compiled": ("device (measured)", theme.MODELLED),
    "simulation": ("the simulator itself (measured)", theme.PLAIN),
}


def _times(key: str, seen: Seen) -> None:
    figure = go.Figure()
    longest = 1
    for what, (label, colour) in SERIES.items():
        times = [(ns / 1e6, warm) for name, ns, warm in seen.samples if name == what]
        if not times:
            continue
        longest = max(longest, len(times))
        figure.add_scatter(
            x=list(range(1, len(times) + 1)),
            y=[ms for ms, _ in times],
            name=label,
            mode="lines+markers",
            line={"color": colour, "width": 2},
            marker={"size": 8, "symbol": ["circle-open" if warm else "circle" for _, warm in times]},
            customdata=["warm-up" if warm else "timed" for _, warm in times],
            hovertemplate="iteration %{x}, %{customdata}: %{y:.3g} ms<extra></extra>",
        )
    if seen.record is not None and (compiled := seen.record.timing("compiled")) and compiled.kind == "modelled":
        figure.add_scatter(
            x=[1, longest],
            y=[compiled.median_ns / 1e6] * 2,
            name=f"{compiled.device} ({compiled.source})",
            mode="lines",
            line={"color": theme.MODELLED, "width": 2, "dash": "dot"},
            hovertemplate=f"%{{y:.3g}} ms, {compiled.source}<extra></extra>",
        )
    figure.update_xaxes(title="iteration (hollow: warm-up)", nticks=min(longest, 8) + 1, tickformat=",d")
    figure.update_yaxes(title="ms", **theme.log_axis(y for line in figure.data for y in line.y))
    with st.container(border=True):
        st.markdown("**Time per iteration**")
        theme.chart(figure, height=290, key=f"times-{key}")


# -------------------------------------------------------------------------------------------------------------- figures


def _figures(request: TaskRequest, seen: Seen, record: Record) -> None:
    theme.row(*_badges(request, record))
    theme.tiles(figures(request, seen, record))
    name = f"{request.task}-{record.job.key}.json"
    document = json.dumps(to_json(record), indent=1)
    left, right = st.columns(2)
    left.download_button("Record as JSON", document, name, "application/json", icon=":material/download:")
    with right:
        links.link("Look inside", "model", icon=":material/search_insights:", record=f"{machine()}/{record.job.key}")


WHENCE: dict[Source, str] = {
    "modelled": "a model of the chip gave the time",
    "measured": "a clock gave the time",
    "modelled + measured host": "a model gave the chip's part of the time, a clock the part of this machine",
}


def _badges(request: TaskRequest, record: Record) -> list[str]:
    compiled = record.timing("compiled")
    worth = badge(f"no time on {record.job.device}", title="nothing is computed there, so there is no time")
    if compiled:
        worth = badge(f"{compiled.source} on {record.job.device}", compiled.kind, title=WHENCE[compiled.source])
    programs = [
        badge(f"ran Program {fingerprint[:12]} · {steps} steps", "good", title=f"fingerprint {fingerprint}")
        for fingerprint, steps in record.programs
    ]
    weights = {"small": "small, trained here", "random": "true size, random weights", "folder": "your own weights"}
    return [
        worth,
        *programs,
        badge(weights.get(request.source, "pretrained"), "warn" if request.source == "random" else "plain"),
        badge("kept in the store", title=record.job.key),
    ]


def figures(request: TaskRequest, seen: Seen, record: Record) -> list[Tile]:
    """The tiles of a run that went well."""
    compiled, eager = record.timing("compiled"), record.timing("eager")
    drawn = []
    generates = TASKS[request.task].kind == "generate"
    if compiled:
        what = "Generation time" if generates else "Execution time"
        drawn.append(Tile(what, *_duration(compiled.median_ns), _note(compiled), compiled.kind))
        if seen.tokens:
            counted = "new tokens ÷ generation time" if generates else "sequence length ÷ time"
            rate = seen.tokens / (compiled.median_ns / 1e9)
            drawn.append(Tile("Tokens per second", rounded(rate), "", f"{compiled.source}; {counted}", compiled.kind))
        if first := record.timing(FIRST_TOKEN):
            drawn.append(Tile("Time to first token", *_duration(first.median_ns), _note(first), first.kind))
        if later := record.timing(PER_TOKEN):
            drawn.append(Tile("Time per output token", *_duration(later.median_ns), _note(later), later.kind))
    if eager:
        drawn.append(Tile("CPU, eager mode", *_duration(eager.median_ns), _note(eager), "measured"))
    if compiled and eager:
        drawn.append(speed_up(record, compiled, eager))
    if record.pcc is not None:
        tone: theme.Tone = "good" if record.pcc >= record.job.settings.pcc else "bad"
        shown = f"{math.floor(record.pcc * 1e5) / 1e5:.5f}"
        drawn.append(Tile("PCC against eager", shown, "", "of one call's output", tone))
    coverage = record.coverage
    if coverage.before:
        share = 1 - coverage.host_share
        note, tone = f"{coverage.remain} of {coverage.before} ops stay on the host", "good" if share == 1 else "warn"
        drawn.append(Tile("Op coverage", f"{share:.1%}" if share < 1 else "100%", "", note, tone))
    if record.memory.l1_peak_bytes:
        note = f"modelled; {record.memory.l1_peak_per_core_bytes / 1024:.0f} KiB of a core's {_kib(record)}"
        drawn.append(Tile("Peak SRAM", *_size(record.memory.l1_peak_bytes), note, "modelled"))
    return drawn


SPEED_UP = "Speed-up against the CPU"


def speed_up(record: Record, compiled: Timing, eager: Timing) -> Tile:
    """How many times faster than the CPU, with what the intervals leave open; withheld where one of the times, or a
    part of one, does not stand. A modelled time over a measured one says so in its unit."""
    weak = weakness(record, eager) or weakness(record, compiled)
    if weak:
        return Tile(SPEED_UP, "unclear", "", weak, "warn")
    ratio = eager.median_ns / compiled.median_ns
    mixed = compiled.kind != eager.kind
    (low, high), (least, most) = eager.interval_ns or (0, 0), compiled.interval_ns or (0, 0)
    spread = f"{rounded(low / most)} to {rounded(high / least)}; "
    note = spread + (f"measured CPU time ÷ {compiled.source} time" if mixed else "both measured in one run")
    return Tile(SPEED_UP, rounded(ratio), "modelled ×" if mixed else "×", note, compiled.kind)


def _note(timing: Timing) -> str:
    count = len(timing.samples_ns)
    said = f"{timing.source}, median of {count}" if count > 1 else timing.source
    if timing.interval_ns is not None:
        unit, size = _unit(timing.median_ns)  # as the tile has it
        low, high = timing.interval_ns
        said += f", {rounded(low / size)} to {rounded(high / size)} {unit}"
    return said + (f"; {timing.verdict}" if timing.verdict in ("unsteady", "too few") else "")


def _duration(ns: float) -> tuple[str, str]:
    unit, size = _unit(ns)
    return rounded(ns / size), unit


def _unit(ns: float) -> tuple[str, float]:
    """The unit that a time is told in, and its nanoseconds."""
    return next(((unit, size) for unit, size in (("s", 1e9), ("ms", 1e6)) if ns >= size), ("µs", 1e3))


def _size(size: float) -> tuple[str, str]:
    return (f"{size / 2**20:.2f}", "MiB") if size >= 2**20 else (f"{size / 1024:.0f}", "KiB")


def _kib(record: Record) -> str:
    return f"{record.memory.l1_per_core_bytes / 1024:.0f} KiB"


# -------------------------------------------------------------------------------------------------------------- outputs


def _answer(request: TaskRequest, output: dict[str, Any]) -> None:
    context, span, guess = request.inputs.context, output["span"], output["guess"]
    if span is not None:
        theme.answer(context[slice(*span)], f"confidence {output['score']:.0%}")
    elif output["none"]:
        # How sure it is that there is none was not calibrated: on unseen questions it is wrong more often than right.
        theme.answer("I don't know", "no answer found in the passage")
    else:
        theme.answer("I don't know", f"best guess, {output['score']:.0%}: {context[slice(*guess)]}")
    first, last = span or (0, 0)
    mark = f"<mark>{escape(context[first:last])}</mark>" if span is not None else ""
    st.html(f'<div class="po-answer">{escape(context[:first])}{mark}{escape(context[last:])}</div>')
    if output["read"] < len(context.rstrip()):
        st.warning(f"The model read the first {output['read']:,} of {len(context):,} characters: the rest was cut.")
    st.caption(_KNOWS[request.source])


def _generate(request: TaskRequest, output: dict[str, Any]) -> None:
    if request.task == "code":
        st.code(output["prompt"] + output["text"], language="python", wrap_lines=True)
        return
    prompt, text = escape(output["prompt"]), escape(output["text"])
    st.html(f'<div class="po-answer"><span class="given">{prompt}</span><b>{text}</b></div>')


def _classify(request: TaskRequest, output: dict[str, Any]) -> None:
    theme.answer(output["label"], f"confidence {output['confidence']:.1%}")
    digits = request.task == "digits"
    values = output["logits"] if digits else output["chances"]
    best = output["labels"].index(output["label"])
    colours = [theme.GOOD if n == best else theme.PLAIN for n in range(len(values))]
    figure = go.Figure(
        go.Bar(x=output["labels"], y=values, marker_color=colours, hovertemplate="%{x}: %{y:.3g}<extra></extra>")
    )
    figure.update_xaxes(type="category")
    figure.update_yaxes(title="logit" if digits else "probability")
    theme.chart(figure, height=220, key=f"chances-{request.task}")


_KNOWS = {
    "small": "This small model knows no facts. It looks for the answer in your passage, and says when it is unsure.",
    "pretrained": "Trained on SQuAD 2: it looks for the answer in your passage, and may say that there is none.",
    "folder": "Your own weights: what they know is what you trained them on.",
    "random": "Random weights: this answer is noise.",
}
"""Beside an answer: what it is worth."""

_OUTPUTS: dict[str, Callable[[TaskRequest, dict[str, Any]], None]] = {
    "answer": _answer,
    "generate": _generate,
    "classify": _classify,
}
