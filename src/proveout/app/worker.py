"""The worker's side of a run: a TaskRequest on stdin, events as JSON lines into a folder, the Record into the store."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proveout.app.tasks import TASKS, TaskRequest
from proveout.capture import LiveModel
from proveout.capture.identity import workload_of
from proveout.clock.timing import FIRST_TOKEN, PER_TOKEN, judged
from proveout.coding import from_json, to_json
from proveout.errors import ProveoutError
from proveout.prove import prove_here
from proveout.store import Store
from proveout.subject import Watch
from proveout.types import Job, Record, Timing, Workload

STREAMED_EVERY_S = 0.05
"""Text is told no more often: a page cannot show more."""


STAGE = {"model": "load", "compile": "compile", "run": "check", "check": "check"}
"""The page's name for a stage of the spine."""


class Events(Watch):
    """Tells a page what happens, one JSON line each, as it happens."""

    def __init__(self, path: Path, baseline: bool) -> None:
        self._file = path.open("a", buffering=1)
        self._started = time.monotonic()
        self._stage = ""
        self._baseline = baseline
        self._told = 0.0

    def tell(self, kind: str, **what: Any) -> None:
        line = {"kind": kind, "t": round(time.monotonic() - self._started, 4), **what}
        self._file.write(json.dumps(line) + "\n")

    def enter(self, stage: str) -> None:
        if stage != self._stage:
            self._stage = stage
            self.tell("stage", name=stage)

    def stage(self, name: str) -> None:
        self.enter(STAGE.get(name) or ("cpu" if self._baseline else "warm-up"))

    def after_pass(self, name: str) -> None:
        self.tell("pass", name=name)

    def sample(self, what: str, ns: int, warm: bool) -> None:
        if what != "eager":
            self.enter("warm-up" if warm else "run")
        self.tell("sample", what=what, ns=ns, warm=warm)

    def output(self, output: dict[str, Any], whole: bool = False) -> None:
        """What the task gives, so far or as a whole."""
        now = time.monotonic()
        if whole or now - self._told >= STREAMED_EVERY_S:
            self._told = now
            self.tell("output", output=output, whole=whole)


def run(request: TaskRequest, folder: Path) -> None:
    """Do all of a run in this process."""
    events = Events(folder / "events.jsonl", request.baseline)
    events.enter("load")
    try:
        from proveout.app.prepare import prepare

        prepared = prepare(request)
        workload = _named(workload_of(prepared.model, (), prepared.inputs), request)
    except ProveoutError as error:
        events.tell("error", failure=error.failure, message=str(error))
        return
    except Exception as error:
        traceback.print_exc()
        memory = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
        first = (str(error).strip().splitlines() or [""])[0]
        events.tell("error", failure="memory" if memory else "internal", message=f"{type(error).__name__}: {first}")
        return
    job = Job(
        workload,
        request.device,
        request.settings,
        ("run", "benchmark"),
        request.iterations,
        request.warmup,
        request.timeout_s,
        baseline=request.baseline,
        enough_s=request.enough_s or None,
    )
    store = Store(request.cache_dir)
    # Its Programs stay, so that the explorer can show memory, performance and graph of it.
    job = dataclasses.replace(job, artifacts=str((store.folder / "programs" / job.key).absolute()))
    events.tell("job", job=to_json(job), tokens=prepared.tokens)
    iterate = _Iteration(prepared.iterate, events)
    live = LiveModel(workload, prepared.model, (), prepared.inputs, iterate=iterate, more=prepared.more)
    record = prove_here(job, live, watch=events)
    if TASKS[request.task].kind == "generate":
        record = with_token_times(record, iterate.generations[request.warmup :], request.inputs.new_tokens)
    store.write(record)
    events.tell("record", record=to_json(record))


@dataclass(frozen=True)
class Generation:
    """What one timed generation took to its first token and after it; of a modelled chip, what its model says."""

    first_ns: int
    rest_ns: int
    first_modelled_ns: int | None = None


def with_token_times(record: Record, generations: Sequence[Generation], new_tokens: int) -> Record:
    """With the time to the first token and the time per token after it. A modelled generation is divided as its calls
    are; a measured one was stamped inside the calls that the loop timed."""
    whole = record.timing("compiled")
    if whole is None or not generations:
        return record
    after = new_tokens - 1
    if whole.kind == "modelled":
        first = generations[-1].first_modelled_ns
        if not first or whole.parts:  # of the host's part no one knows how much lies before the first token
            return record
        share = min(first / whole.median_ns, 1.0)
        parts = [(FIRST_TOKEN, share), *([(PER_TOKEN, (1 - share) / after)] if after else [])]
        return dataclasses.replace(record, timings=(*record.timings, *(_part(whole, *part) for part in parts)))
    kept = generations[-len(whole.samples_ns) :]
    times = {FIRST_TOKEN: [g.first_ns for g in kept]}
    times |= {PER_TOKEN: [round(g.rest_ns / after) for g in kept]} if after else {}
    more = [judged(Timing(what, "measured", whole.device, tuple(ns), whole.conditions)) for what, ns in times.items()]
    return dataclasses.replace(record, timings=(*record.timings, *more))


def _part(whole: Timing, what: str, share: float) -> Timing:
    """A share of a modelled time, as uncertain as the whole."""
    interval = whole.interval_ns and (whole.interval_ns[0] * share, whole.interval_ns[1] * share)
    samples = tuple(round(ns * share) for ns in whole.samples_ns)
    return dataclasses.replace(whole, what=what, samples_ns=samples, interval_ns=interval, parts=())


class _Iteration:
    """One iteration. The first, which the spine makes on the device before it times any, tells its output as it comes;
    the timed ones tell nothing, on the device as on the CPU."""

    def __init__(self, iterate: Callable[[Any, Any], dict[str, Any]], events: Events) -> None:
        self._iterate, self._events = iterate, events
        self.shown = False
        self.generations: list[Generation] = []
        """On the device, of each iteration after the first."""

    def __call__(self, call: Any) -> dict[str, Any]:
        from proveout.engine.compiled import Compiled

        if not self.shown:
            self.shown = True
            output = self._iterate(call, self._events.output)
            self._events.output(output, whole=True)
            return output
        output = self._iterate(call, _nobody)
        if isinstance(call, Compiled) and "first_token_ns" in output:
            self.generations.append(
                Generation(output["first_token_ns"], output["rest_ns"], output["first_modelled_ns"])
            )
        return output


def _nobody(output: dict[str, Any]) -> None:
    """Nobody looks."""


def _named(workload: Workload, request: TaskRequest) -> Workload:
    task = TASKS[request.task]
    return dataclasses.replace(
        workload,
        name=f"{task.path} ({request.source})",
        labels=(("playground", (task.path,)), ("weights", (request.source,))),
        weights=request.source,
        random_weights=(task.model,) if request.source == "random" else (),
    )


def main(arguments: Sequence[str]) -> None:
    request = from_json(TaskRequest, json.loads(sys.stdin.read()))
    run(request, Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
