"""The explorer's charts. A chart holds times of one kind only, and says which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import streamlit as st

from proveout.app import theme
from proveout.app.data import Entry
from proveout.app.tables import Cells
from proveout.columns.parts import OpRow

if TYPE_CHECKING:
    from proveout.kernels.cost import MemoryAt
    from proveout.report.perf.sheet import Sheet
    from proveout.types import DeviceSpec, Timing

MOST_BARS = 12
STATES = {"converted": theme.GOOD, "removed": theme.PLAIN, "host": theme.BAD}
SHADES = [theme.MODELLED, "#5b6fd8", "#a05fd0", "#8f86c9", "#4f8fd6", "#b48ad9", "#6a64b8"]
"""Of the modelled time's colour: parts of one whole."""


def show_latencies(entries: Sequence[Entry], kind: theme.Tone) -> None:
    """The slowest models of one kind. Drawn without a library: the board is there before Plotly would be."""
    shown = sorted(entries, key=lambda e: -(e.row.compiled_ms or 0.0))[:MOST_BARS]
    times = [e.row.compiled_ms or 0.0 for e in shown]
    most, is_log = times[0], times[0] / times[-1] > 50
    low = math.log(times[-1]) - 1 if is_log else 0.0
    shares = [(math.log(t) - low) / (math.log(most) - low) if is_log else t / most for t in times]
    theme.bars(
        [
            theme.Bar(_label(e, shown), share, f"{time:.3g}", f"{e.title}: {time:.4g} ms {kind}")
            for e, time, share in zip(shown, times, shares)
        ],
        kind,
    )
    more = f" The slowest {len(shown)} of {len(entries)}." if len(entries) > len(shown) else ""
    host = kind == "modelled" and any(e.row.host_part_ms is not None for e in shown)
    whence = f"{kind}{', the part on the host measured' if host else ''}"
    st.caption(f"Median of one call, in ms; {whence}{', on a log scale' if is_log else ''}.{more}")


def _label(entry: Entry, shown: Sequence[Entry]) -> str:
    """The model, and what tells it apart where two bars share a name."""
    name = entry.row.model
    alike = [e for e in shown if e.row.model == name]
    label = name if len(alike) == 1 else f"{name} · {entry.row.device} · {entry.path.stem[:4]}"
    return label if len(label) <= 28 else f"{label[:13]}…{label[-14:]}"


def show_trend(history: Sequence[Entry]) -> None:
    """Latency of each kind and PCC of one subject over time, a chart each."""
    when = [e.row.created for e in history]
    charts: list[tuple[str, str, list[float | None], str]] = [
        (f"Time of a call, {kind}", "ms", [e.latency_ms(kind) for e in history], kind)
        for kind in ("modelled", "measured")
    ]
    charts.append(("PCC, lowest of the outputs", "", [e.row.pcc for e in history], "good"))
    charts.append(
        ("Ops off the host", "%", [None if e.coverage is None else 100 * e.coverage for e in history], "warn")
    )
    drawn = [chart for chart in charts if sum(value is not None for value in chart[2]) > 1]
    for start in range(0, len(drawn), 2):
        for (title, unit, values, tone), place in zip(drawn[start : start + 2], st.columns(2)):
            dash = "dot" if tone == "modelled" else "solid"
            line = go.Scatter(
                x=when, y=values, mode="lines+markers", line={"color": theme.COLOURS[tone], "dash": dash},
                hovertemplate=f"%{{x}}<br>%{{y:.6g}} {unit}<extra></extra>",
            )  # fmt: skip
            figure = go.Figure(line)
            figure.update_yaxes(title=unit, range=_range([v for v in values if v is not None]))
            with place, st.container(border=True):
                st.markdown(f"**{title}**")
                theme.chart(figure, height=220, key=f"trend {title}")


def _range(values: Sequence[float]) -> list[float]:
    """An axis a little wider than its values, also where they are all the same."""
    low, high = min(values), max(values)
    room = 0.15 * (high - low) or 0.02 * abs(high) or 1.0
    return [low - room, high + room]


def show_op_states(rows: Sequence[OpRow]) -> None:
    """The ATen ops that stay on the host and the most frequent others, by what became of them."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row.aten] = totals.get(row.aten, 0) + row.count
    host = {row.aten for row in rows if row.state == "host"}
    ranked = sorted(totals, key=lambda name: (name in host, totals[name]))[-MOST_BARS:]  # what stays is never left out
    names = sorted(ranked, key=lambda name: totals[name])
    figure = go.Figure()
    for state, colour in STATES.items():
        counts = {n: sum(r.count for r in rows if r.aten == n and r.state == state) for n in names}
        if any(counts.values()):
            short = [n.removeprefix("aten.").removesuffix(".default") for n in names]
            figure.add_bar(
                x=list(counts.values()), y=short, orientation="h", name=state, marker_color=colour,
                hovertemplate="%{y}: %{x} " + state + "<extra></extra>",
            )  # fmt: skip
    figure.update_layout(barmode="stack")
    theme.chart(figure, height=90 + 24 * len(names), key="op states")


def show_module_pcc(modules: Sequence[Cells], threshold: float) -> None:
    """The lowest PCC of each module's Steps as 1 − PCC on a log scale, where differences near 1 can be seen."""
    shown = list(modules)[:24][::-1]
    figure = go.Figure()
    for key, name, colour in (
        ("pcc", "on its own operands", theme.MODELLED),
        ("accumulated_pcc", "from the start", theme.WARN),
    ):
        values = [distance(m[key]) for m in shown]
        figure.add_scatter(
            x=values, y=[_cut(m["module"] or "(no module)") for m in shown], mode="markers", name=name,
            marker={"color": colour, "size": 10, "symbol": "circle" if key == "pcc" else "diamond-open"},
            customdata=[m[key] for m in shown],
            hovertemplate="%{y}<br>PCC %{customdata:.6f}<extra>" + name + "</extra>",
        )  # fmt: skip
    figure.add_vline(x=1 - threshold, line={"color": theme.BAD, "dash": "dash"}, annotation_text=f"limit {threshold:g}")
    drawn = [x for line in figure.data for x in line.x if x is not None]
    axis = theme.log_axis([*drawn, 1 - threshold])
    figure.update_xaxes(title="1 − PCC; further left is closer", **axis)
    theme.chart(figure, height=110 + 24 * len(shown), key="module pcc")


def distance(pcc: float | None) -> float | None:
    """1 − PCC, which a log scale can show; nothing is closer than float32 can tell."""
    return None if pcc is None else max(1 - pcc, 1e-7)


def _cut(text: str, most: int = 32) -> str:
    return text if len(text) <= most else f"…{text[-most + 1 :]}"


def show_memory(points: Sequence[MemoryAt], chip: DeviceSpec) -> None:
    """What lies in the chip's memories while each Step of the body runs. Modelled."""
    steps = list(range(1, len(points) + 1))
    names = [p.step.kernel for p in points]
    for title, parts, limit in (
        (
            "L1 of one core",
            (
                ("buffers", [p.l1 for p in points], theme.MODELLED),
                ("circular buffers", [p.circular for p in points], theme.WARN),
            ),
            chip.l1_allocatable,
        ),
        ("DRAM of all banks", (("buffers", [p.dram * chip.dram_banks for p in points], theme.MODELLED),), 0),
    ):
        unit, size = ("KiB", 1024) if limit else ("MB", 1e6)
        figure = go.Figure()
        for name, values, colour in parts:
            figure.add_scatter(
                x=steps, y=[v / size for v in values], name=name, stackgroup="all", mode="lines",
                line={"color": colour, "shape": "hv", "width": 1}, customdata=names,
                hovertemplate=f"%{{customdata}}<br>%{{y:.4g}} {unit}<extra>{name}</extra>",
            )  # fmt: skip
        peak = max((sum(values) for values in zip(*(values for _, values, _ in parts))), default=0)
        if limit and peak > limit / 3:
            line = {"color": theme.BAD, "dash": "dash"}
            figure.add_hline(y=limit / size, line=line, annotation_text="what tensors may use")
        figure.update_yaxes(title=unit, rangemode="tozero")
        figure.update_xaxes(title="Step of the body")
        with st.container(border=True):
            st.html(f"<b>{title}</b> {theme.badge('modelled', 'modelled')}")
            theme.chart(figure, height=270, key=f"memory {title}")
            if limit:
                st.caption(f"At most {peak / size:,.0f} of {limit / size:,.0f} KiB that tensors and buffers may use.")


def show_roofline(sheet: Sheet) -> None:
    """Each device operation by arithmetic intensity and predicted rate, under the chip's roofs."""
    from proveout.report.perf.roofline import points, roofs

    roofline = points(sheet)
    if not roofline:
        st.caption("No operation of this Program does arithmetic on the chip.")
        return
    figure = go.Figure()
    low, high = (pick(p.intensity for p in roofline) for pick in (min, max))
    span = (low / 3, max(high * 3, 2000.0))
    for roof in roofs(sheet.chip, {p.fidelity for p in roofline if p.fidelity}):
        corner = roof.tflop_s / roof.dram_tb_s
        figure.add_scatter(
            x=[span[0], corner, span[1]], y=[span[0] * roof.dram_tb_s, roof.tflop_s, roof.tflop_s], mode="lines",
            line={"color": theme.PLAIN, "width": 1.5, "dash": "dash"}, name=roof.name, hoverinfo="name",
        )  # fmt: skip
    most = max(p.ns for p in roofline)
    for bound, colour in (("compute", theme.MODELLED), ("bandwidth", theme.WARN)):
        some = [p for p in roofline if p.bound == bound]
        if some:
            figure.add_scatter(
                x=[p.intensity for p in some], y=[p.tflop_s for p in some], mode="markers", name=f"{bound} bound",
                marker={"color": colour, "opacity": 0.75, "size": [8 + 22 * (p.ns / most) ** 0.5 for p in some]},
                text=[f"{p.name}<br>{p.module}<br>{p.ns / 1e3:.3g} µs" for p in some],
                hovertemplate="%{text}<br>%{y:.3g} TFLOP/s at %{x:.3g} FLOP/byte<extra></extra>",
            )  # fmt: skip
    figure.update_xaxes(title="FLOP per byte that its tensors take", **theme.log_axis(span))
    drawn = [y for line in figure.data for y in line.y]
    figure.update_yaxes(title="TFLOP/s, modelled", **theme.log_axis(drawn))
    theme.chart(figure, height=380, key="roofline")


def show_treemap(sheet: Sheet) -> None:
    """Where the modelled time of one call goes: module by module, then operation by operation."""
    values: dict[tuple[str, ...], int] = {}
    for row in sheet.rows:
        if row.time.ns:
            path = row.step.origin.module.split(".") if row.step.origin.module else ["(no module)"]
            leaf = (sheet.name, *path[:4], f"{row.code.removesuffix('DeviceOperation')}")
            values[leaf] = values.get(leaf, 0) + row.time.ns
    totals: dict[tuple[str, ...], int] = {}
    for leaf, ns in values.items():
        for depth in range(1, len(leaf) + 1):
            totals[leaf[:depth]] = totals.get(leaf[:depth], 0) + ns
    nodes = list(totals)
    figure = go.Figure(
        go.Treemap(
            ids=["/".join(n) for n in nodes],
            labels=[n[-1] for n in nodes],
            parents=["/".join(n[:-1]) for n in nodes],
            values=[totals[n] / 1e3 for n in nodes],
            branchvalues="total",
            maxdepth=4,
            marker={"cornerradius": 4},
            texttemplate="%{label}<br>%{percentRoot:.1%}",
            hovertemplate="%{id}<br>%{value:.4g} µs modelled<br>%{percentRoot:.1%}<extra></extra>",
        )
    )
    figure.update_layout(treemapcolorway=SHADES)
    theme.chart(figure, height=420, key="treemap")


def show_samples(timings: Sequence[Timing]) -> None:
    """Every timed call, in order: a chart for each thing a clock timed."""
    for timing, place in zip(timings, st.columns(len(timings)) if timings else ()):
        values = [ns / 1e6 for ns in timing.samples_ns]
        figure = go.Figure(
            go.Scatter(
                x=list(range(1, len(values) + 1)),
                y=values,
                mode="lines+markers",
                line={"color": theme.MEASURED},
                marker={"size": 5},
                hovertemplate="call %{x}: %{y:.4g} ms<extra></extra>",
            )
        )
        figure.add_hline(
            y=timing.median_ns / 1e6, line={"color": theme.PLAIN, "dash": "dash"}, annotation_text="median"
        )
        figure.update_yaxes(title="ms, measured", rangemode="tozero")
        figure.update_xaxes(title="timed call")
        with place, st.container(border=True):
            st.html(f"<b>{timing.what} on {timing.device}</b> {theme.badge('measured', 'measured')}")
            theme.chart(figure, height=230, key=f"samples {timing.what}")
