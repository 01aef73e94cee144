"""Bring-ups: the folders that `proveout bringup` leaves, each with the status of its stages and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from proveout.app import links, tables, theme
from proveout.app.options import store
from proveout.app.tables import Column
from proveout.coding import read_json

DEFAULT = "bringup"
"""Where the command puts its folders, below the folder it runs in."""
EVERY_S = 3.0
TONES: dict[str, theme.Tone] = {"passed": "good", "attention": "warn", "failed": "bad", "skipped": "plain"}
MARKS = {"passed": "✓", "attention": "!", "failed": "✘", "skipped": "–"}
WORDS = {"passed": "done", "attention": "look at it", "failed": "failed", "skipped": "skipped"}
STRIP = {"passed": "done", "failed": "failed"}
MOST_FILES = 40


@dataclass(frozen=True)
class BringUp:
    """One folder as it is now: what its `stages/NN-name.json` say."""

    folder: Path
    stages: tuple[dict[str, Any], ...]
    running: str = ""
    """The stage that a worker is in."""

    @property
    def name(self) -> str:
        return self.folder.name

    def data(self, stage: str) -> dict[str, Any]:
        return next((s.get("data") or {} for s in self.stages if s["name"] == stage), {})

    def count(self, status: str) -> int:
        return sum(s["status"] == status for s in self.stages)


def find(folder: Path) -> list[BringUp]:
    """The bring-ups below a folder, or the folder itself where it is one; by name."""
    places = {p.parent.parent for depth in ("", "*/", "*/*/") for p in folder.glob(f"{depth}stages/[0-9][0-9]-*.json")}
    return [run for place in sorted(places) if (run := _read(place)).stages]


def _read(folder: Path) -> BringUp:
    stages = []
    for path in sorted((folder / "stages").glob("[0-9][0-9]-*.json")):
        try:
            stage = read_json(path)
        except (OSError, ValueError):
            continue  # being written, or somebody else's
        if isinstance(stage, dict) and {"number", "name", "title", "status", "headline"} <= stage.keys():
            stages.append(stage)
    try:
        running = (folder / ".running").read_text().strip()
    except OSError:
        running = ""
    return BringUp(folder, tuple(stages), running)


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
    st.fragment(_one, run_every=EVERY_S if picked.running else None)(picked.folder)


def _all(bringups: Sequence[BringUp]) -> None:
    if len(bringups) == 1:
        return
    rows = [
        {
            "name": b.name,
            "done": b.count("passed"),
            "look": b.count("attention"),
            "failed": b.count("failed") + b.count("skipped"),
            "now": b.running,
            "pcc": b.data("end-to-end").get("lowest_pcc"),
            "modelled_us": _us(b.data("perf").get("total_ns")),
            "headline": b.stages[-1]["headline"],
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


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3


def _one(folder: Path) -> None:
    run = _read(folder)
    st.subheader(run.name, anchor=False)
    _strip(run)
    _figures(run)
    for stage in run.stages:
        _stage(run, stage)
    _report(run)
    rows = [{**s, "findings": "; ".join(s.get("findings", ()))} for s in run.stages]
    columns = [Column(k, k) for k in ("number", "name", "title", "status", "headline", "findings", "next_step")]
    tables.download("Stages as CSV", tables.render_csv(rows, columns), f"{run.name}-stages.csv", "text/csv")


def _strip(bringup: BringUp) -> None:
    """All stages at a glance: a coloured bar each."""
    cells = []
    for stage in bringup.stages:
        if stage["name"] != bringup.running:
            status = stage["status"]
            label = escape(f"{stage['number']} {stage['title']}: {WORDS.get(status, status)}")
            text = f"{MARKS.get(status, '?')} {stage['number']}"
            cells.append(f'<div class="po-stage {STRIP.get(status, "")}" title="{label}">{escape(text)}</div>')
    if bringup.running:
        cells.append(f'<div class="po-stage now">▸ {escape(bringup.running)}</div>')
    st.html(f'<div class="po-stages">{"".join(cells)}</div>')


def _figures(bringup: BringUp) -> None:
    checked, perf, tuned, graph = (bringup.data(name) for name in ("end-to-end", "perf", "optimise", "graph"))
    tiles = []
    if checked.get("lowest_pcc") is not None:
        tiles.append(
            theme.Tile("Lowest PCC", f"{checked['lowest_pcc']:.6f}", note="of any output, held-out inputs too")
        )
    if perf.get("total_ns"):
        figure, unit = tables.duration(perf["total_ns"])
        tiles.append(theme.Tile("A call", figure, unit, "optimised, in a trace; modelled", "modelled"))
    if tuned.get("speedup"):
        tiles.append(
            theme.Tile("Quicker", f"{tuned['speedup']:.2f}", "×", "than bfloat16 in DRAM; modelled", "modelled")
        )
    if graph.get("ops"):
        on_host = graph.get("states", {}).get("host", 0)
        tiles.append(
            theme.Tile(
                "On the host", f"{on_host}", note=f"of {graph['ops']} ATen ops", tone="warn" if on_host else "good"
            )
        )
    if tiles:
        theme.tiles(tiles)


def _stage(bringup: BringUp, stage: dict[str, Any]) -> None:
    status = stage["status"]
    mark = MARKS.get(status, "?")
    with st.expander(
        f"{mark} **{stage['number']} {stage['title']}** · {stage['headline']}",
        expanded=status in ("failed", "attention"),
    ):
        theme.row(theme.badge(WORDS.get(status, status), TONES.get(status, "plain")))
        for line in stage.get("findings", ()):
            st.markdown(f"- {line}")
        if stage.get("next_step"):
            st.info(stage["next_step"], icon=":material/arrow_forward:")
        files = [name for name, _ in stage.get("files", ())]
        if files:
            more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
            st.caption(f"Files in {bringup.folder}: {', '.join(files[:MOST_FILES])}{more}")


def _report(bringup: BringUp) -> None:
    """The pages of the folder, which open offline, inside this one."""
    for name, label in (("report.html", "Report"), ("graph.html", "Graph")):
        path = bringup.folder / name
        if path.is_file():
            text = path.read_text(errors="replace")
            if st.toggle(f"Show its {label.lower()} here", key=f"show {name} {bringup.name}"):
                st.iframe(text, height=760)
            tables.download(f"{label}, one page that opens offline", text, f"{bringup.name}-{name}", "text/html")
