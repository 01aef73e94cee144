"""Bring-ups: the folders that `proveout bringup` leaves, each with the status of its stages and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st

from proveout.app import links, tables, theme
from proveout.app.options import store
from proveout.app.tables import Column
from proveout.bringup.data import EndToEndData, GraphData, OptimiseData, PerfData
from proveout.bringup.stage import MARKS, Folder, StageRecord
from proveout.coding import to_json

DEFAULT = "bringup"
"""Where the command puts its folders, below the folder it runs in."""
EVERY_S = 3.0
TONES: dict[str, theme.Tone] = {"passed": "good", "attention": "warn", "failed": "bad", "skipped": "plain"}
WORDS = {"passed": "done", "attention": "look at it", "failed": "failed", "skipped": "skipped"}
STRIP = {"passed": "done", "failed": "failed", "attention": "look"}
MOST_FILES = 40


@dataclass(frozen=True)
class BringUp:
    """One folder as it is now: what its `stages/NN-name.json` say."""

    folder: Folder
    stages: tuple[StageRecord, ...]
    running: tuple[str, ...] = ()
    """The stages that a worker is in."""

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def lowest_pcc(self) -> float | None:
        checked = self.folder.data(EndToEndData)
        return checked.lowest_pcc if checked is not None else None

    @property
    def total_ns(self) -> int | None:
        """Of one call of the optimised model, modelled; its chip's part where the host has one, too."""
        perf = self.folder.data(PerfData)
        return perf.total_ns if perf is not None else None

    @property
    def has_host_part(self) -> bool:
        graph = self.folder.data(GraphData)
        return graph is not None and graph.has_host_part

    def count(self, status: str) -> int:
        return sum(s.status == status for s in self.stages)


def find(folder: Path) -> list[BringUp]:
    """The bring-ups below a folder, or the folder itself where it is one; by name."""
    places = {p.parent.parent for depth in ("", "*/", "*/*/") for p in folder.glob(f"{depth}stages/[0-9][0-9]-*.json")}
    return [run for place in sorted(places) if (run := _read(place)).stages]


def _read(path: Path) -> BringUp:
    folder = Folder(path)
    return BringUp(folder, tuple(folder.outcomes()), tuple(folder.running()))


def first_folder(cache: Path) -> str:
    """Where to look first: where `proveout bringup` writes, or beside the cache, as a demo leaves both."""
    beside = cache.parent / DEFAULT
    return DEFAULT if Path(DEFAULT).is_dir() or not beside.is_dir() else str(beside)


def page() -> None:
    theme.head("Bring-up", "Every bring-up, stage by stage, and what to do next.")
    text = st.text_input(
        "Folder",
        first_folder(store().folder),
        key="folder",
        help="One bring-up, or a folder that holds some.",
        icon=":material/folder:",
        **links.BOUND,
    )
    folder = Path(text or DEFAULT).expanduser()
    runs = find(folder)
    if not runs:
        theme.empty(
            "No bring-up here",
            f"{folder.absolute()} holds none. This makes one, and this page follows it while it runs:",
            f"proveout bringup attention.py --search-dir selftest -o {text or DEFAULT}/attention",
        )
        return
    _all(runs)
    names = [b.name for b in runs]
    name = st.selectbox("Bring-up", names, key="model", **links.BOUND) if len(runs) > 1 else names[0]
    picked = runs[names.index(name)]
    st.fragment(_one, run_every=EVERY_S if picked.running else None)(picked.folder.path)


def _all(bringups: Sequence[BringUp]) -> None:
    if len(bringups) == 1:
        return
    rows = [
        {
            "name": b.name,
            "done": b.count("passed"),
            "look": b.count("attention"),
            "failed": b.count("failed") + b.count("skipped"),
            "now": ", ".join(b.running),
            "pcc": b.lowest_pcc,
            "modelled_us": None if b.total_ns is None or b.has_host_part else b.total_ns / 1e3,
            "headline": b.stages[-1].headline,
        }
        for b in bringups
    ]
    columns = [
        Column("name", "Model", width="medium"),
        Column("done", "Done", "number", "%d"),
        Column("look", "To look at", "number", "%d"),
        Column("failed", "Failed or skipped", "number", "%d"),
        Column("now", "Running now"),
        Column("pcc", "Lowest PCC", "pcc"),
        Column("modelled_us", "Modelled µs a call", "number", "%.4g"),
        Column("headline", "Last stage", width="large"),
    ]
    tables.show(rows, columns, "bringups")


def _one(folder: Path) -> None:
    run = _read(folder)
    st.subheader(run.name, anchor=False)
    _strip(run)
    _figures(run)
    for stage in run.stages:
        _stage(run, stage)
    _report(run)
    rows = [{**to_json(s), "findings": "; ".join(s.findings)} for s in run.stages]
    columns = [Column(k, k) for k in ("number", "name", "title", "status", "headline", "findings", "next_step")]
    tables.download("Stages as CSV", tables.render_csv(rows, columns), f"{run.name}-stages.csv", "text/csv")


def _strip(bringup: BringUp) -> None:
    """All stages at a glance: a coloured bar each."""
    cells = []
    for stage in bringup.stages:
        if stage.name not in bringup.running:
            label = escape(f"{stage.number} {stage.title}: {WORDS[stage.status]}")
            text = f"{MARKS[stage.status]} {stage.number}"
            cells.append(f'<div class="po-stage {STRIP.get(stage.status, "")}" title="{label}">{escape(text)}</div>')
    cells += [f'<div class="po-stage now">▸ {escape(name)}</div>' for name in bringup.running]
    st.html(f'<div class="po-stages">{"".join(cells)}</div>')


def _figures(bringup: BringUp) -> None:
    tuned, graph = bringup.folder.data(OptimiseData), bringup.folder.data(GraphData)
    tiles = []
    if (pcc := bringup.lowest_pcc) is not None:
        tiles.append(theme.Tile("Lowest PCC", f"{pcc:.6f}", note="before optimising, held-out inputs too"))
    if tuned is not None and tuned.held_out_pcc is not None:
        tiles.append(theme.Tile("Lowest PCC, optimised", f"{tuned.held_out_pcc:.6f}", note="on held-out inputs"))
    if total_ns := bringup.total_ns:
        figure, unit = tables.duration(total_ns)
        name, note = ("The chip's part", "without the host's; ") if bringup.has_host_part else ("A call", "")
        tiles.append(theme.Tile(name, figure, unit, f"{note}optimised, in a trace; modelled", "modelled"))
    if tuned is not None:
        name = "The chip's part faster" if bringup.has_host_part else "Faster"
        tiles.append(theme.Tile(name, f"{tuned.speedup:.2f}", "×", "than bfloat16 in DRAM; modelled", "modelled"))
        if tuned.found_by == "solver" and tuned.gap is not None:
            figure, unit = tables.duration(tuned.bound_ns)
            note = f"no decisions within the budget are faster; gap {tuned.gap:.1%}"
            tiles.append(theme.Tile("Proven bound", figure, unit, note, "modelled"))
    if graph is not None:
        on_host = graph.states.get("host", 0)
        tone: theme.Tone = "warn" if on_host else "good"
        tiles.append(theme.Tile("On the host", f"{on_host}", note=f"of {graph.ops} ATen ops", tone=tone))
    if tiles:
        theme.tiles(tiles)


def _stage(bringup: BringUp, stage: StageRecord) -> None:
    with st.expander(
        f"{MARKS[stage.status]} **{stage.number} {stage.title}** · {stage.headline}",
        expanded=stage.status in ("failed", "attention"),
    ):
        theme.row(theme.badge(WORDS[stage.status], TONES[stage.status]))
        for line in stage.findings:
            st.markdown(f"- {line}")
        if stage.next_step:
            st.info(stage.next_step, icon=":material/arrow_forward:")
        if stage.name == EndToEndData.stage:
            _why(bringup)
        files = [name for name, _ in stage.files]
        if files:
            more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
            st.caption(f"Files in {bringup.folder.path}: {', '.join(files[:MOST_FILES])}{more}")


def _why(bringup: BringUp) -> None:
    """Where the error comes from, a picture for each graph: its sentences are in it."""
    checked = bringup.folder.data(EndToEndData)
    for cause in checked.why if checked is not None else ():
        st.image(cause.svg)


def _report(bringup: BringUp) -> None:
    """The pages of the folder, which open offline, inside this one."""
    for name, label in (("report.html", "Report"), ("graph.html", "Graph")):
        path = bringup.folder.path / name
        if path.is_file():
            text = path.read_text(errors="replace")
            if st.toggle(f"Show its {label.lower()} here", key=f"show {name} {bringup.name}"):
                st.iframe(text, height=760)
            tables.download(f"{label}, one page that opens offline", text, f"{bringup.name}-{name}", "text/html")
