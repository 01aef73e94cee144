"""`proveout bringup`: one model through all stages of bring-up, into a folder that a person can read."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proveout.capture import discover, resolve
from proveout.cli.jobs import check_folder
from proveout.cli.options import Json, ScriptArgs
from proveout.cli.output import emit, emit_json, note
from proveout.coding import read_json, to_json
from proveout.devices.registry import find, settings_for
from proveout.errors import ScriptError, UsageError
from proveout.folders import file_name
from proveout.isolate import Runner
from proveout.sweep.tasks import wants_fresh
from proveout.types import Workload

if TYPE_CHECKING:
    from proveout.bringup import BringupJob, StageRecord
    from proveout.bringup.stage import Status

Script = Annotated[str, typer.Argument(metavar="MODEL.py[::HASH]", help="The script; ::HASH picks one of its models.")]
SearchDir = Annotated[
    list[str] | None,
    typer.Option("--search-dir", metavar="DIR", help="Folder or corpus to find the script in.", show_default=False),
]
DeviceName = Annotated[str, typer.Option("--device", metavar="D", help="A modelled chip; see `proveout devices`.")]
Pcc = Annotated[float, typer.Option("--pcc", metavar="MIN", min=-1, max=1, help="Lowest PCC that passes.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="The folder [default: bringup/NAME].", show_default=False),
]
Small = Annotated[bool, typer.Option("--small", help="Hand --small to the script: a model that fits a laptop.")]
StageName = Annotated[
    str | None,
    typer.Option("--stage", metavar="NAME", help="This stage, what it needs, and the report.", show_default=False),
]
Float64 = Annotated[bool, typer.Option("--float64", help="Hold outputs against a float64 reference as well.")]
NoTests = Annotated[bool, typer.Option("--no-tests", help="Write the generated tests without running them.")]
Timeout = Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for all stages.")]


def verb(
    script: Script,
    search_dir: SearchDir = None,
    device: DeviceName = "sim:n150",
    pcc: Pcc = 0.99,
    output: Output = None,
    small: Small = False,
    stage: StageName = None,
    float64: Float64 = False,
    no_tests: NoTests = False,
    script_args: ScriptArgs = "",
    timeout: Timeout = 3600.0,
    as_json: Json = False,
) -> int:
    """Turn one model into optimised, tested ttnn code.

    Works through the stages of a bring-up and leaves one folder: card, reference, graph, summary, op tests, missing
    ops, end to end, optimise, ttnn code and module tests, perf sheet, trace and queues, decoding, report. Run it again
    and it resumes where it stopped. All times are modelled.

    \b
    Examples:
      proveout bringup attention.py --search-dir selftest -o bringup/attention
      proveout bringup yolov4.py --search-dir torch_hub --small --stage perf
    """
    from proveout import bringup

    info = find(device)
    if info.target != "ttnn" or info.times != "modelled":
        raise UsageError(f"bring-up is for a modelled chip, and device {device!r} is none. Use --device sim:n150.")
    if stage is not None:
        bringup.find_stage(stage)
    arguments = f"{script_args} --small".strip() if small else script_args
    path, selectors = _script(script, search_dir or [])
    with contextlib.ExitStack() as until_done:
        server = bringup.warm_server(path)
        until_done.callback(server.stop)
        run = functools.partial(server.run, fresh=wants_fresh(path))
        workload = _workload(path, selectors, arguments, timeout, run)
        folder = (output or Path("bringup") / file_name(workload.name)).absolute()
        check_folder(folder)
        job = bringup.BringupJob(workload, info.name, settings_for(device, {"pcc": pcc}), float64, not no_tests)
        with _Telling(job, folder, len(bringup.STAGES), bringup.MARKS) as told:
            outcomes = bringup.bring_up(job, folder, stage, timeout, server)
    failed = sum(outcome.status == "failed" for outcome in outcomes)
    if as_json:
        read = bringup.Folder(folder)
        kinds = {o.name: bringup.DATA.get(o.name) for o in outcomes}
        figures = {name: read.data(kind) for name, kind in kinds.items() if kind is not None}
        stages = [{**to_json(o), "data": to_json(figures.get(o.name)) or {}} for o in outcomes]
        emit_json({"verb": "bringup", "folder": str(folder), "failed": failed, "stages": stages})
    else:
        _show(folder, outcomes, bringup.MARKS, told)
    if (folder / "report.html").exists():
        note(f"read {folder / 'report.html'}, or report.md beside it")
    return 1 if failed else 0


def _script(script: str, search_dirs: list[str]) -> tuple[Path, Sequence[str]]:
    """The one script that is meant, and which of its models."""
    ((path, selectors), *others) = resolve([script], search_dirs, False)
    if others:
        raise UsageError(f"bring-up takes one script, and {script!r} holds {1 + len(others)}. Name one of them.")
    return path, selectors


def _workload(path: Path, selectors: Sequence[str], script_args: str, timeout_s: float, run: Runner) -> Workload:
    """The one model that is meant."""
    note(f"looking for models in {path.name}")
    discovery = discover(path, script_args=script_args, timeout_s=timeout_s, run=run)
    workloads = [w for w in discovery.workloads if not selectors or w.selector in selectors]
    if not workloads:
        raise ScriptError(discovery.error or f"{path.name} has no model {', '.join(selectors)}.")
    if len(workloads) > 1:
        listed = ", ".join(f"{path.name}::{w.selector} ({w.name})" for w in workloads)
        raise UsageError(f"{path.name} holds {len(workloads)} models, and bring-up takes one. Choose: {listed}.")
    return workloads[0]


class _Telling:
    """Says each stage as it ends, from what the worker leaves in the folder."""

    def __init__(self, job: BringupJob, folder: Path, total: int, marks: Mapping[Status, str]) -> None:
        self.folder, self.total, self.name, self.marks = folder, total, job.workload.name, marks
        self._before = {path: path.stat().st_mtime_ns for path in (folder / "stages").glob("*.json")}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._started = time.monotonic()
        self._told: set[int] = set()

    def __enter__(self) -> set[int]:
        """The numbers of the stages that it told."""
        self._thread.start()
        return self._told

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.3):
            self._look()
        self._look()

    def _look(self) -> None:
        for path in sorted((self.folder / "stages").glob("*.json")):
            changed = path.stat().st_mtime_ns
            if self._before.get(path) != changed:
                self._before[path] = changed
                stage = read_json(path)
                seconds = time.monotonic() - self._started
                self._told.add(stage["number"])
                note(
                    f"[{stage['number']}/{self.total}] {self.marks[stage['status']]} {stage['title']}: "
                    f"{stage['headline']} ({seconds:.0f} s)"
                )


def _show(folder: Path, outcomes: list[StageRecord], marks: Mapping[Status, str], announced: set[int]) -> None:
    """Every stage that was not told as it ended, and what to do about those that need a look."""
    lines = [f"{folder}"]
    for outcome in outcomes:
        step = f"next: {outcome.next_step}" if outcome.next_step and outcome.status != "passed" else ""
        name = f"{outcome.number:>3} {marks[outcome.status]} {outcome.title}"
        if outcome.number not in announced:
            lines += [f"{name}: {outcome.headline}", *([f"      {step}"] if step else [])]
        elif step and outcome.name != "report":  # which repeats the first of them
            lines.append(f"{name}; {step}")
    emit("\n".join(lines))
