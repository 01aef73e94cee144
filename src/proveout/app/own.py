"""One's own model: a script is run in a sandbox, its models are found, compiled, checked and timed, and brought up.

Each step is the command that the page shows, run in a process of its own; the page only starts it and reads its answer.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from proveout.app import links, tables, theme
from proveout.app.children import Children
from proveout.app.commands import Command, CommandLine
from proveout.app.figures import TONES, call_tiles
from proveout.app.options import store
from proveout.app.tables import Column
from proveout.capture.scripts import corpora_folder
from proveout.columns.table import Row, row_of
from proveout.columns.words import count, status_words
from proveout.devices.registry import devices, find
from proveout.errors import EnvironmentFault
from proveout.folders import file_name
from proveout.limits import machine_memory, sandbox_reaches
from proveout.types import Limits
from proveout.words import counted

REFRESH_S = 0.5
LARGEST_SCRIPT = 2 << 20
"""Bytes of an uploaded script."""
PROCESSES = 256
"""At most, while a script is searched for models; as on the command line."""


@dataclass(frozen=True)
class ScriptRequest:
    """What the page's widgets say: which script, what it may use, and on what to run it."""

    script: str
    arguments: str
    device: str
    sandbox: bool
    network: bool
    memory_gib: float
    timeout_s: int
    timed_s: float

    @property
    def folder(self) -> str:
        """The script's own folder, where it runs."""
        return str(Path(self.script).parent)

    def limits(self) -> Limits:
        return Limits(round(self.memory_gib * 2**30), PROCESSES, self.network, self.sandbox)

    def words(self) -> tuple[str, ...]:
        """Options that say how a script is run."""
        flags = (*(("--sandbox",) if self.sandbox else ()), *(() if self.network else ("--no-network",)))
        arguments = ("--script-args", self.arguments) if self.arguments else ()
        limits = ("--memory", f"{self.memory_gib:g}", "--timeout", f"{self.timeout_s}")
        return (*arguments, *flags, *limits)

    def find(self) -> CommandLine:
        """Which models does it call?"""
        return CommandLine(("discover", self.script, *self.words(), "--json"), self.folder, self.timeout_s + 60.0)

    def prove(self, selectors: list[str]) -> CommandLine:
        """Compile, check and time some of its models; their Programs stay, so that the explorer has them."""
        script = f"{self.script}::{','.join(selectors)}"
        words = ("benchmark", script, "--device", self.device, *self.words(), "--duration", f"{self.timed_s:g}")
        kept = store().folder.absolute()
        words += ("--cache-dir", str(kept), "-o", str(kept / "programs" / "own"))
        return CommandLine((*words, "--json"), self.folder, (self.timeout_s + 60.0) * (1 + len(selectors)))

    def bring_up(self, selector: str, folder: Path) -> CommandLine:
        """All stages of bring-up of one model. That verb has no options for limits: they hold for all of it."""
        arguments = ("--script-args", self.arguments) if self.arguments else ()
        words = ("bringup", f"{self.script}::{selector}", "--device", self.device, *arguments, "-o", str(folder))
        limits = replace(self.limits(), processes=0)
        return CommandLine((*words, "--json"), self.folder, 3600.0, limits, (str(folder),))


class Step(Command):
    """A command of this page, with what its widgets said when it was started."""

    def __init__(self, line: CommandLine, settings: dict[str, Any]) -> None:
        self.settings = settings
        super().__init__(line)


@st.cache_resource(show_spinner=False)
def _commands() -> Children[Step]:
    return Children()


def page() -> None:
    theme.head("Your model", "Name a script that calls your model: compile it, check it, time it, bring it up.")
    _follow_address()
    busy = next((c for step in STEPS if (c := _command(step)) is not None and c.running), None)
    request = _form()
    if request is None:
        return
    _limits_line(request)
    st.subheader("1 · Find its models", anchor=False)
    _button("find", "Find models", request.find(), busy)
    search = _command("find")
    if search is None or search.line != request.find():
        st.caption("The script runs once and is watched: every model that it calls is listed. Nothing is compiled yet.")
        return
    models = _outcome(search, "scripts")
    workloads = [model for script in models for model in script.get("models", ())]
    if not search.running and models:
        _models(models, workloads)
    if not workloads:
        return
    st.subheader("2 · Compile, check and time", anchor=False)
    selectors = _picked(workloads)
    if not selectors:
        st.caption("Choose at least one model.")
        return
    _button("prove", "Compile, check and time", request.prove(selectors), busy)
    proven = _command("prove")
    if proven is not None and proven.line == request.prove(selectors):
        _results(_outcome(proven, "records"))
    st.subheader("3 · Bring it up", anchor=False)
    _bring_up(request, workloads, busy)


# ----------------------------------------------------------------------------------------------------------- the script


def _form() -> ScriptRequest | None:
    """The script, what it may use, and the device; None while there is no script, with the reason on the page."""
    with st.container(border=True):
        st.session_state.setdefault("own-way", "Path")
        way = st.segmented_control("Script", ["Path", "Upload"], required=True, key="own-way")
        script = _uploaded() if way == "Upload" else _named()
        arguments = st.text_input("Arguments for the script", key="own-arguments", placeholder="--batch-size 8")
        usable = {name: info for name, info in devices().items() if info.available}
        device = st.selectbox("Device", list(usable), key="own-device", help="Where its models run.")
        st.caption(usable[device].description[:1].upper() + usable[device].description[1:])
        with st.expander("Limits", icon=":material/shield:"):
            left, right = st.columns(2)
            sandbox = left.toggle("Sandbox", True, key="own-sandbox", help="It writes below its own folder only.")
            network = right.toggle("Network", False, key="own-network", help="Whether the script may use the network.")
            most = max(1.0, math.floor(9 * machine_memory() / 2**30) / 10)
            memory = left.number_input("Memory (GiB)", 0.5, most, most, 1.0, key="own-memory", help="Of each process.")
            timeout = right.number_input(
                "Time limit (s)", 10, 7200, 600, 60, key="own-timeout", help="Of the script, and of each model."
            )
            timed = left.number_input("Timed calls (s)", 0.1, 60.0, 2.0, 1.0, key="own-timed", help="Of each kind.")
    if script is None:
        return None
    if sandbox and way == "Path" and sandbox_reaches(store().folder, script.parent):
        st.warning(
            f"A sandboxed script may write below {script.parent}, where the results are kept ({store().folder}). Move "
            "it into a folder of its own, or switch the sandbox off under Limits.",
            icon=":material/edit:",
        )
        return None
    return ScriptRequest(
        str(script), arguments.strip(), device, sandbox, network, float(memory), int(timeout), float(timed)
    )


def _named() -> Path | None:
    """The script of a path, as the server's machine has it."""
    st.session_state.setdefault("own-script", "")
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    text = left.text_input("Path of the script", key="own-script", placeholder="~/project/model.py")
    right.button("Example", on_click=_example, help="A small attention block of the corpus `selftest`.")
    if not text.strip():
        st.caption("A Python script that builds a model and calls it with example inputs, as it runs today.")
        return None
    path = Path(text.strip()).expanduser().absolute()
    problem = _problem(path)
    if problem:
        st.warning(problem, icon=":material/edit:")
        return None
    return path


def _problem(path: Path) -> str:
    """Why a path names no script; empty where it does."""
    if path.is_dir():
        scripts = sorted(p.name for p in path.glob("*.py"))
        hint = f" It holds {', '.join(scripts[:5])}{' …' if len(scripts) > 5 else ''}." if scripts else ""
        return f"{path} is a folder. Name one script in it.{hint}"
    if not path.exists():
        return f"{path} does not exist on this machine."
    if path.suffix != ".py":
        return f"{path.name} is not a Python script (.py)."
    return ""


def _example() -> None:
    try:
        st.session_state["own-script"] = str(corpora_folder() / "selftest" / "attention.py")
    except EnvironmentFault:
        st.toast("The corpora are not installed.")


def _uploaded() -> Path | None:
    """An uploaded script, kept beside the store in a folder of its own, where it also runs."""
    most = LARGEST_SCRIPT >> 20
    file = st.file_uploader(
        "Python script", type=["py"], key="own-file", on_change=_forget_upload, max_upload_size=most
    )
    if file is None:
        kept: Path | None = st.session_state.get(UPLOADED)
        if kept is None or not kept.exists():
            return None
        st.caption(f"{kept.name}, uploaded before. Upload another script to replace it.")
        return kept
    text = file.getvalue()
    if len(text) > LARGEST_SCRIPT:
        st.warning(f"{file.name} is larger than {most} MiB.", icon=":material/edit:")
        return None
    folder = store().folder.absolute() / "own" / hashlib.sha256(text).hexdigest()[:12] / "uploads"
    path = folder / f"{file_name(file.name.removesuffix('.py')) or 'script'}.py"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    st.session_state[UPLOADED] = path
    return path


UPLOADED = "own-uploaded"
"""Where the path of an uploaded script is kept: the uploader forgets its file when another page is visited."""


def _forget_upload() -> None:
    """A script that is taken away or replaced is not brought back."""
    st.session_state.pop(UPLOADED, None)


def _limits_line(request: ScriptRequest) -> None:
    where = f"writes below {request.folder} only" if request.sandbox else "may write anywhere you may"
    network = "may use the network" if request.network else "has no network"
    st.info(
        f"The script runs in processes of its own. It {where}, {network}, and gets {request.memory_gib:g} GiB of "
        f"memory, {request.timeout_s} s and {PROCESSES} processes at most.",
        icon=":material/shield:",
    )


# ------------------------------------------------------------------------------------------------------------ the steps

STEPS = ("find", "prove", "bringup")


def _command(step: str) -> Step | None:
    """This tab's command of a step."""
    return _commands().get(st.session_state.get(f"own-{step}-id", ""))


def _follow_address() -> None:
    """The address names this tab's commands, so that a reload finds them again, and the settings they ran with."""
    for step in STEPS:
        key = f"own-{step}-id"
        named = _commands().get(links.given(step))
        if key not in st.session_state and named is not None:
            st.session_state.update({**named.settings, key: named.id})
        if command := _command(step):
            st.query_params[step] = command.id


def _settings() -> dict[str, Any]:
    """What the page's widgets say; buttons and files say nothing that can be set again."""
    kinds = (str, bool, int, float, list, Path)
    return {
        key: value
        for key, value in st.session_state.items()
        if isinstance(key, str) and key.startswith("own-") and not key.endswith(("-start", "-stop", "-id", "-file"))
        if isinstance(value, kinds)
    }


def _button(step: str, label: str, line: CommandLine, busy: Step | None) -> None:
    """One button: it starts a step, and stops it while it runs."""
    running = _command(step)
    if running is not None and running.running:
        st.button("Stop", key=f"own-{step}-stop", icon=":material/stop:", on_click=_stop, args=(running,))
        _live(step)
    else:
        st.button(
            label,
            key=f"own-{step}-start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=busy is not None,
            on_click=_start,
            args=(step, line),
        )
    with st.expander("The same in a terminal", icon=":material/terminal:"):
        st.code(str(line), language="bash", wrap_lines=True)


def _start(step: str, line: CommandLine) -> None:
    st.session_state[f"own-{step}-id"] = _commands().add(Step(line, _settings())).id


def _stop(command: Step) -> None:
    command.stop()
    command.wait(2.0)


@st.fragment(run_every=REFRESH_S)
def _live(step: str) -> None:
    """What a command says while it runs; only this part is drawn again."""
    command = _command(step)
    if command is None or not command.running:
        st.rerun(scope="app")
    else:
        st.caption(f"{command.now()} · {command.seconds:.0f} s")
        with st.expander("Log", expanded=True):
            st.code(command.log().strip() or "Nothing printed yet", language=None, wrap_lines=True, height=180)


def _outcome(command: Step, key: str) -> list[dict[str, Any]]:
    """What a command that is over answered; why it did not, where it did not."""
    if command.running:
        return []
    if command.stopped:
        st.info("Stopped. What was finished before is kept.", icon=":material/stop:")
        return []
    if error := command.error():
        # Not "Net.py": a name is written as it is.
        st.error(error[0].upper() + error[1:] if error.split()[0].isalpha() else error, icon=":material/report:")
        if log := command.log().strip():
            with st.expander("Log"):
                st.code(log, language=None, wrap_lines=True)
        return []
    return list(command.answer().get(key, ()))


def _models(scripts: list[dict[str, Any]], workloads: list[dict[str, Any]]) -> None:
    for script in scripts:
        if script.get("error"):
            (st.warning if workloads else st.error)(script["error"], icon=":material/report:")
            if script.get("log"):
                with st.expander("What the script printed"):
                    st.code(script["log"], language=None, wrap_lines=True)
    if not workloads:
        if not any(script.get("error") for script in scripts):
            theme.empty("No model was called", "Call your model in the script: model(inputs). Only called ones count.")
        return
    rows = [
        {
            "name": w["name"],
            "class": w["class_name"],
            "parameters": count(w["parameters"]),
            "inputs": ", ".join(f"{name} {spec['dtype']}{spec['shape']}" for name, spec in w["inputs"]),
            "calls": w["calls"],
            "location": w["location"],
            "obstacle": w["obstacle"],
        }
        for w in workloads
    ]
    columns = [
        Column("name", "Model"),
        Column("class", "Class"),
        Column("parameters", "Parameters"),
        Column("inputs", "Inputs", width="medium"),
        Column("calls", "Calls", "number", "%d"),
        Column("location", "Built at"),
        Column("obstacle", "Cannot be compiled", width="large"),
    ]
    tables.show(rows, columns, "own-models")


def _labels(workloads: list[dict[str, Any]]) -> dict[str, str]:
    """Each model's selector with the name that tells it from the others."""
    names = [w["name"] for w in workloads]
    return {
        w["selector"]: w["name"] if names.count(w["name"]) == 1 else f"{w['name']} {w['selector']}" for w in workloads
    }


def _picked(workloads: list[dict[str, Any]]) -> list[str]:
    """The selectors of the models that are meant; all, unless some are chosen."""
    labels = _labels(workloads)
    if len(labels) == 1:
        return list(labels)
    return st.multiselect(
        "Models",
        list(labels),
        list(labels),
        format_func=lambda s: labels.get(s, s),
        key=f"own-models {' '.join(labels)}",
    )


def _results(records: list[dict[str, Any]]) -> None:
    """Each model's figures, and the way into the explorer."""
    for outcome in records:
        flat, path = row_of(outcome), Path(outcome["file"])
        words = status_words(flat)
        with st.container(border=True):
            theme.row(
                f"<b>{escape(flat.model)}</b>",
                theme.badge(f"{words.mark} {words.words}", TONES[flat.status]),
                theme.badge(flat.device),
            )
            if flat.reason:
                (st.error if flat.status == "failed" else st.warning)(flat.reason, icon=":material/report:")
            theme.tiles(list(_tiles(flat)))
            place = f"{path.parent.name}/{path.stem}"
            with st.container(horizontal=True):
                links.link("Open in the explorer", "model", icon=":material/search_insights:", record=place)
                if flat.l1_peak_bytes is not None:
                    links.link("Its time", "model", icon=":material/timer:", record=place, section="Performance")
                    links.link("Its graph", "model", icon=":material/account_tree:", record=place, section="Graph")


def _tiles(flat: Row) -> Iterator[theme.Tile]:
    yield from call_tiles(flat, "CPU, eager mode")
    if flat.ops_before:
        left = flat.ops_remain
        note = f"of {counted(flat.ops_before, 'ATen op')}"
        yield theme.Tile("On the host", f"{left}", note=note, tone="warn" if left else "good")


def _bring_up(request: ScriptRequest, workloads: list[dict[str, Any]], busy: Step | None) -> None:
    """The whole way of one model into a folder; the explorer's page follows it."""
    info = find(request.device)
    if info.target != "ttnn" or info.times != "modelled":
        st.caption(f"Bring-up is for a modelled chip, and {request.device} is not one. Choose sim:n150 above.")
        return
    st.caption("Reference, graph, op tests, ttnn code, accuracy, optimisation, perf sheet and a report, in a folder.")
    labels = _labels(workloads)
    selector = next(iter(labels))
    if len(labels) > 1:
        selector = st.selectbox("Model", list(labels), format_func=lambda s: labels.get(s, s), key="own-bringup-model")
    folder = store().folder.absolute() / "bringup" / file_name(f"{labels[selector]}-{request.device}")
    line = request.bring_up(selector, folder)
    _button("bringup", "Start the bring-up", line, busy)
    command = _command("bringup")
    if command is None or command.line != line:
        return
    if not command.running and _outcome(command, "stages"):
        statuses = [stage["status"] for stage in command.answer()["stages"]]
        tell, sentence = stages_told(statuses)
        {"good": st.success, "warn": st.warning, "bad": st.error}[tell](sentence)
    links.link("Follow it stage by stage", "bringup", icon=":material/checklist:", folder=str(folder))


def stages_told(statuses: list[str]) -> tuple[str, str]:
    """A tone and a sentence for a bring-up that is over: green only where there is nothing to look at."""
    counts = Counter(statuses)
    told = ", ".join(f"{counts[status]} {words}" for status, words in STAGE_WORDS.items() if counts[status])
    tone = "bad" if "failed" in statuses else "warn" if "attention" in statuses else "good"
    return tone, f"{counted(len(statuses), 'stage')}: {told}."


STAGE_WORDS = {"passed": "passed", "attention": "to look at", "failed": "failed", "skipped": "not needed or skipped"}
