"""The folder that a benchmark keeps its stamps in while it runs, and what can be made of one that was left behind.

It lies in shared memory where there is enough of it: stores never wait for a disk, and pages outlive processes. A
benchmark that ends, however it ends, removes its folder; only one whose controller was killed leaves it for `recover`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from proveout.clock import histogram
from proveout.clock.stamps import NO_STAMPS, read_calls
from proveout.coding import from_json, plain_bytes, read_json
from proveout.errors import UsageError
from proveout.folders import default_folder
from proveout.measure.models import device_kind
from proveout.measure.outcome import Outcome, OutputCheck, WorkerRun
from proveout.measure.task import stamps_path
from proveout.serving import Configuration

SHARED_MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 256 << 20
PREFIX = "proveout-run-"
LOG_LINES = 40
KILLED = "the controller was killed; these are the calls that had ended by then"
NOT_STARTED = "the controller was killed before this configuration was measured"


@contextmanager
def run_folder(configurations: Sequence[tuple[Configuration, Sequence[str], Sequence[int]]]) -> Iterator[Path]:
    """A folder with what is needed to read it without us: (configuration, columns, workers of each model) in order."""
    root = _roots()[0]
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    try:
        plan = [
            {"configuration": asdict(c), "columns": list(columns), "callers": list(callers)}
            for c, columns, callers in configurations
        ]
        write_json(folder / "run.json", {"controller": _identity(os.getpid()), "plan": plan})
        for number in range(len(configurations)):
            configuration_folder(folder, number).mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def configuration_folder(folder: Path, number: int) -> Path:
    return folder / f"configuration{number}"


def write_json(path: Path, document: Any) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(document, allow_nan=False))
    partial.rename(path)


def save_outcome(folder: Path, number: int, outcome: Outcome) -> None:
    """All of an Outcome but its stamps, which are in the folder already."""
    plain = {k: v for k, v in vars(outcome).items() if k not in ("configuration", "workers", "check")}
    workers = [{k: v for k, v in vars(w).items() if not hasattr(v, "dtype")} for w in outcome.workers]
    check = None if outcome.check is None else asdict(outcome.check)
    write_json(configuration_folder(folder, number) / "outcome.json", plain | {"workers": workers, "check": check})


def left_behind() -> list[Path]:
    """Folders of benchmarks whose controller is gone, oldest first."""
    folders = [f for root in _roots() if root.is_dir() for f in root.glob(f"{PREFIX}*") if (f / "run.json").exists()]
    gone = [f for f in folders if f.stat().st_uid == os.getuid() and not _in_use(f)]
    return sorted(gone, key=lambda f: f.stat().st_mtime)


def _in_use(folder: Path) -> bool:
    """Whether a benchmark's controller lives; of a damaged folder nobody does."""
    try:
        return _alive(_read(folder / "run.json")["controller"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def recover(folder: Path) -> list[Outcome]:
    """One Outcome for every configuration that was asked for, from whatever its workers had written."""
    if not (folder / "run.json").exists():
        raise UsageError(f"{folder} is not a benchmark's folder: there is no run.json in it.")
    try:
        plan = _read(folder / "run.json")["plan"]
        if sum(max(0, workers) for part in plan for workers in part["callers"]) > MOST_WORKERS:
            raise ValueError(f"it names more than {MOST_WORKERS:,} workers")
        return [_recovered(configuration_folder(folder, number), part) for number, part in enumerate(plan)]
    except DAMAGE as error:
        raise damaged(folder, error) from error


DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError)
"""What numbers and texts raise that nobody wrote."""


def damaged(folder: Path, error: Exception) -> UsageError:
    return UsageError(f"{folder} is damaged ({type(error).__name__}: {str(error)[:200]}).")


def forget(folder: Path) -> None:
    """Remove a folder that was recovered."""
    shutil.rmtree(folder)


def worker_runs(folder: Path, columns: Sequence[str], callers: Sequence[int]) -> list[WorkerRun]:
    """Each worker's calls, as far as they got."""
    runs = []
    for model, workers in enumerate(callers):
        for worker in range(workers):
            path = stamps_path(folder, model, worker)
            if tuple(columns) == histogram.COLUMNS:
                bins = histogram.read_bins(path) if path.exists() else NO_STAMPS
                runs.append(WorkerRun(worker=worker, model=model, bins=bins))
            else:
                runs.append(WorkerRun(worker=worker, model=model, **vars(read_calls(path, columns))))
    return runs


def raised_line(trace: str) -> str:
    """The line of a traceback that says what was raised: the last, unless a message of several lines follows it. Its
    full stop goes: sentences are made of it."""
    lines = trace.strip().splitlines() or [""]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt|Exit)(:|$)", line)]
    return (named[-1] if named else lines[-1]).removesuffix(".")


def last_lines(path: Path) -> str:
    """The end of a log."""
    if not path.exists():
        return ""
    return "\n".join(plain_bytes(path).decode(errors="replace").splitlines()[-LOG_LINES:])


def ended_ns(workers: Sequence[WorkerRun], at_least: int = 0) -> int:
    """When the last call of any worker ended."""
    binned = (histogram.last_end(w.bins) for w in workers)
    return max([at_least, *binned, *(int(w.ends_ns.max()) for w in workers if w.ends_ns.size)])


@dataclass(frozen=True)
class Go:
    """When the measured phase began and was to end."""

    start_ns: int
    deadline_ns: int
    created: str


MOST_WORKERS = 1 << 16
"""No benchmark has more; of a damaged folder each would be looked for."""
LONGEST_NS = 100 * 86_400 * 10**9
"""No benchmark takes longer."""


def _recovered(folder: Path, part: dict[str, Any]) -> Outcome:
    configuration = from_json(Configuration, part["configuration"])
    runs = worker_runs(folder, part["columns"], part["callers"])
    if (folder / "outcome.json").exists():
        saved = _read(folder / "outcome.json")
        workers = tuple(replace(run, **changes) for run, changes in zip(runs, saved.pop("workers")))
        check = saved.pop("check")
        saved["conditions"] = tuple((k, v) for k, v in saved["conditions"])
        saved["resources"] = tuple((k, tuple(v)) for k, v in saved["resources"])
        return Outcome(configuration, workers=workers, check=OutputCheck(**check) if check else None, **saved)
    if not (folder / "go.json").exists() or not any(r.ends_ns.size or histogram.num_calls(r.bins) for r in runs):
        return Outcome(configuration, "skipped", NOT_STARTED)
    go = from_json(Go, _read(folder / "go.json"))
    workers = tuple(replace(run, reason="the controller was killed") for run in runs)
    end = ended_ns(workers, go.start_ns)
    if not 0 <= end - go.start_ns < LONGEST_NS:
        raise ValueError("its calls did not all end in one run")
    kind = device_kind(configuration.device) if "device" in part["columns"] else ""
    return Outcome(configuration, "partial", KILLED, workers, go.start_ns, end, kind, created=go.created)


def _roots() -> list[Path]:
    """Where folders may lie, the best first."""
    below_home = default_folder() / "running"
    if not SHARED_MEMORY.is_dir() or not os.access(SHARED_MEMORY, os.W_OK):
        return [below_home]
    enough = shutil.disk_usage(SHARED_MEMORY).free >= ENOUGH_BYTES
    return [SHARED_MEMORY, below_home] if enough else [below_home, SHARED_MEMORY]


def _read(path: Path) -> Any:
    return read_json(path)


def _identity(pid: int) -> list[int]:
    """A pid may be used again; together with when its process began it is not."""
    return [pid, _began(pid)]


def _alive(identity: list[int]) -> bool:
    pid, began = identity
    return _began(pid) == began != 0


def _began(pid: int) -> int:
    """In clock ticks since boot; 0 for no such process, or one that is only waiting to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    after_name = text.rpartition(")")[2].split()
    return 0 if after_name[0] == "Z" else int(after_name[19])
