"""What a configuration's workers add up to: one Outcome, its status and the reason for it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proveout.clock import histogram
from proveout.clock.stamps import Stamps
from proveout.measure import arrivals
from proveout.measure.models import device_kind
from proveout.measure.outcome import Outcome, OutputCheck, Status, WorkerRun
from proveout.measure.resources import Series
from proveout.measure.runs import Go, ended_ns
from proveout.measure.task import OPEN, Task


def outcome(
    task: Task,
    workers: list[WorkerRun],
    go: Go | None,
    *,
    check: OutputCheck | None,
    overhead_ns: float | None,
    interrupted: bool,
    schedule_ns: Stamps | None,
    notes: Mapping[str, str],
    resources: Series,
) -> Outcome:
    """What a configuration's workers add up to."""
    status, reason = _status(workers, check, interrupted, schedule_ns)
    start = go.start_ns if go is not None else 0
    end = start
    if go is not None:
        whole = schedule_ns is not None and not interrupted and task.configuration.max_infers is None
        due = go.deadline_ns if task.configuration.load.mode in ("constant", "poisson") else start
        end = ended_ns(workers, due if whole else start)
    return Outcome(
        task.configuration,
        status,
        reason,
        tuple(workers),
        start,
        end,
        device_kind(task.configuration.device) if task.has_device_time else "",
        check,
        overhead_ns,
        conditions=tuple(notes.items()),
        resources=resources,
        created=go.created if go is not None else "",
    )


def _status(
    workers: list[WorkerRun], check: OutputCheck | None, interrupted: bool, schedule_ns: Stamps | None
) -> tuple[Status, str]:
    completed = sum(len(w.ends_ns) + histogram.num_calls(w.bins) for w in workers)
    errors = sum(w.errors for w in workers)
    early = [w.reason for w in workers if w.reason]
    if interrupted:
        return "partial", "interrupted"
    if early:
        models = {w.model for w in workers}
        live = len(models - {w.model for w in workers if w.reason})
        of = f" ({live} of {len(models)} models ran to the end)" if len(models) > 1 else ""
        return ("partial" if completed else "failed"), f"{early[0]}{of}"
    if check is not None and check.wrong:
        return "failed", f"{check.wrong} of {check.compared} outputs are wrong: {check.reason}"
    if completed == 0:
        return "failed", "no call was completed: there were fewer inputs than workers, or the duration is too short"
    if errors:
        return "partial", f"{errors} calls raised; the first traceback is in the log"
    if schedule_ns is not None and completed < len(schedule_ns):
        missed = len(schedule_ns) - completed
        return "partial", f"{missed} of {len(schedule_ns)} requests were not served in time: the rate is too high"
    return "passed", ""


def combined(checks: list[OutputCheck]) -> OutputCheck | None:
    if not checks:
        return None
    pccs = [c.worst_pcc for c in checks if c.worst_pcc is not None]
    reason = next((c.reason for c in checks if c.reason), "")
    return OutputCheck(
        sum(c.compared for c in checks), sum(c.wrong for c in checks), min(pccs) if pccs else None, reason
    )


def schedule(task: Task) -> Stamps | None:
    """Intended starts in ns after the measured phase begins; None for loads that are not open."""
    load, duration = task.configuration.load, task.configuration.duration_s
    if load.mode not in OPEN:
        return None
    if load.mode == "replay":
        starts = arrivals.replay(np.rint(np.array(load.arrivals_s) * 1e9).astype(np.int64))
        starts = starts[starts < duration * 1e9]
    elif load.mode == "poisson":
        starts = arrivals.poisson(load.rate, duration, load.seed)
    else:
        starts = arrivals.constant_rate(load.rate, duration)
    total = task.configuration.max_infers
    return starts if total is None else starts[: total * task.configuration.n_models]
