"""Finds the models of a script by running it in a process of its own, unless an earlier run told them."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.capture.labels import Labels, read_labels
from proveout.capture.recall import recall, remember
from proveout.capture.running import SAYS_MORE, file_digest, split_arguments
from proveout.capture.scripts import takes_small
from proveout.capture.weights import check_weights
from proveout.coding import from_json, to_json
from proveout.errors import EnvironmentFault, UsageError
from proveout.isolate import FILLED_DISK, ChildExit, Runner, read_answer, run_python
from proveout.types import Limits, Workload


@dataclass(frozen=True)
class Discovery:
    """What one script holds. `error` says in a sentence what went wrong, even where models were found."""

    script: str
    workloads: tuple[Workload, ...]
    labels: Labels
    error: str
    log: str
    seconds: float
    failure: str = ""
    """The class of the failure that `error` tells."""
    from_cache: bool = False


@dataclass(frozen=True)
class How:
    """How the scripts of one command are run."""

    script_args: str = ""
    small: bool = False
    """Give `--small` to every script that reads its parameters with `proveout.parser`."""
    max_depth: int = 0
    weights: str = ""
    limits: Limits = Limits()

    def arguments(self, script: Path) -> str:
        """The command line of one script."""
        return f"{self.script_args} --small".lstrip() if self.small and takes_small(script) else self.script_args


def discover(
    script: Path,
    *,
    script_args: str = "",
    timeout_s: float = 300.0,
    max_depth: int = 0,
    weights: str = "",
    limits: Limits = Limits(),
    cache: Path | None = None,
    run: Runner = run_python,
) -> Discovery:
    """Run a script in its own process, started by `run`, and watch which models it calls; its prints are the log.

    With a `cache` folder, what was found there for the same script is not looked for again.
    """
    script = Path(os.path.abspath(script))
    if not script.is_file():
        raise UsageError(f"{script} is not a file. Name a Python script.")
    if to_json(str(script)) != str(script):
        why = f"its path {str(script)!r} is not Unicode, which no Record can hold. Rename it"
        return Discovery(str(script), (), (), why, "", 0.0, "usage")
    try:
        labels = read_labels(script)
    except UsageError as error:  # of this script alone
        return Discovery(str(script), (), (), str(error), "", 0.0, "usage")
    split_arguments(script_args)  # a quotation left open is refused before anything runs
    check_weights(weights)
    options: dict[str, Any] = {
        "script": str(script),
        "script_args": script_args,
        "max_depth": max_depth,
        "weights": weights,
        "timeout_s": timeout_s,
        "limits": to_json(limits),
    }
    known = recall(cache, script, options) if cache else None
    if known is not None:
        try:
            log, seconds = str(known["log"]), float(known["seconds"])
            return _discovery(script, labels, _checked(known["found"]), log, seconds, from_cache=True)
        except (ValueError, LookupError, TypeError):  # a file that was damaged: the script is run again
            pass
    answer, outcome = _look(script, options, run)
    if cache and answer.get("lasting", True):
        remember(cache, script, options, answer, outcome.log, outcome.seconds)
    return _discovery(script, labels, answer, outcome.log, outcome.seconds, from_cache=False)


def _look(script: Path, request: dict[str, Any], run: Runner) -> tuple[dict[str, Any], ChildExit]:
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        result = Path(folder, "found.json")
        outcome = run("proveout.capture.child", [json.dumps(request), str(result)], timeout_s=request["timeout_s"])
        nothing = {"workloads": [], "error": "", "failure": ""}
        try:
            answer = _checked(read_answer(result)) if os.path.lexists(result) else nothing
        except ValueError as error:
            answer = nothing | {"error": f"{script.name} changed what is said about it: {error}", "failure": "crash"}
    if "fault" in answer and request["script"] != os.devnull:
        _look(Path(os.devnull), {**request, "script": os.devnull}, run)  # raises it where no script could have said it
        answer = nothing | {"error": f"{script.name} says of this machine what is not so", "failure": "crash"}
    elif "fault" in answer:
        raise EnvironmentFault(answer["fault"])
    if not answer["error"] and not outcome.ok:
        answer |= {"error": _story(script, outcome, ran=bool(answer["workloads"])), "failure": outcome.failure}
        answer |= {"lasting": outcome.returncode != FILLED_DISK}  # with more room it may end well
    return {"files": [[script.name, file_digest(script)]], "packages": {}, **answer}, outcome


FAILURES = frozenset(("script", "capture", "timeout", "crash", "memory", "environment", "usage", "internal", "device"))


@dataclass(frozen=True)
class _Answer:
    """What the child leaves; a script that takes its place must say it in this form."""

    workloads: tuple[Workload, ...] = ()
    error: str = ""
    failure: str = ""
    lasting: bool = True
    files: tuple[tuple[str, str], ...] = ()
    packages: object = None
    fault: str | None = None


def _checked(answer: Any) -> dict[str, Any]:
    checked = from_json(_Answer, answer)
    packages = checked.packages if isinstance(checked.packages, dict) else {}
    if not all(isinstance(part, str) for pair in packages.items() for part in pair):
        raise ValueError("its packages have no versions")
    if checked.failure and checked.failure not in FAILURES:
        raise ValueError(f"it failed in an unknown way, {checked.failure[:40]!r}")
    return {"workloads": [], "error": "", "failure": "", **answer}


def _discovery(
    script: Path, labels: Labels, result: dict[str, Any], log: str, seconds: float, from_cache: bool
) -> Discovery:
    """Where the script lies and how it is labelled may have changed since."""
    read = (from_json(Workload, one) for one in result["workloads"])
    workloads = tuple(dataclasses.replace(one, script=str(script), labels=labels) for one in read)
    last_words = log.strip().rpartition("\n")[2]
    error = result["error"].replace(SAYS_MORE, f"It said: {last_words.rstrip('.')}.") if last_words else result["error"]
    return Discovery(str(script), workloads, labels, error, log, seconds, result["failure"], from_cache)


def _story(script: Path, outcome: ChildExit, ran: bool) -> str:
    """How the process ended, for a script that could not say it itself."""
    if ran:
        return f"{script.name} {outcome.story}, after its models were found."
    step = "Give it more time: --timeout" if outcome.timed_out else f"Run it alone: python {script}"
    return f"{script.name} {outcome.story}, and none of its models could be read. {step}"
