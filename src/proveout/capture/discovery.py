"""Finds the models of a script by running it in a process of its own."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from proveout.capture.labels import Labels, read_labels
from proveout.capture.running import split_arguments
from proveout.errors import UsageError
from proveout.isolate import Outcome, Runner, run_python
from proveout.types import Workload, from_json


@dataclass(frozen=True)
class Discovery:
    """What one script holds. `error` says in a sentence what went wrong, even where models were found."""

    script: str
    workloads: tuple[Workload, ...]
    labels: Labels
    error: str
    log: str
    seconds: float


def discover(script: Path, *, script_args: str = "", timeout_s: float = 300.0, run: Runner = run_python) -> Discovery:
    """Run a script in its own process, started by `run`, and watch which models it calls; its prints are the log."""
    script = Path(os.path.abspath(script))
    if not script.is_file():
        raise UsageError(f"{script} is not a file. Name a Python script.")
    labels = read_labels(script)
    split_arguments(script_args)  # a quotation left open is refused before anything runs
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        result = Path(folder, "found.json")
        outcome = run("proveout.capture.child", [str(script), script_args, str(result)], timeout_s=timeout_s)
        found = json.loads(result.read_text() if result.exists() else '{"workloads": [], "error": ""}')
    workloads = tuple(from_json(Workload, one) for one in found["workloads"])
    error = found["error"] or ("" if outcome.ok else _story(script, outcome, ran=bool(workloads)))
    return Discovery(str(script), workloads, labels, error, outcome.log, outcome.seconds)


def _story(script: Path, outcome: Outcome, ran: bool) -> str:
    """How the process ended, for a script that could not say it itself."""
    if ran:
        return f"{script.name} {outcome.story}, after its models were found."
    step = "Give it more time: --timeout" if outcome.timed_out else f"Run it alone: python {script}"
    return f"{script.name} {outcome.story}, and none of its models could be read. {step}"
