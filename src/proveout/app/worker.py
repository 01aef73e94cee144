"""The worker's side of a run: a Request on stdin, events as JSON lines into a folder, the Record into the store."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from proveout.app.tasks import TASKS, Request
from proveout.capture import Found
from proveout.capture.identity import workload_of
from proveout.clock.timing import FIRST_TOKEN, judged
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


def run(request: Request, folder: Path) -> None:
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
    record = prove_here(job, Found(workload, prepared.model, (), prepared.inputs, iterate=iterate), watch=events)
    if TASKS[request.task].kind == "generate":
        record = with_first_token(record, iterate.first_token_ns[request.warmup :], request.inputs.new_tokens)
    store.write(record)
    events.tell("record", record=to_json(record))


def with_first_token(record: Record, times_ns: Sequence[int], new_tokens: int) -> Record:
    """With the time to the first token. Every token is one call of the same Program, so a modelled generation is so
    many equal parts; a measured one was stamped inside the calls that the loop timed."""
    whole = record.timing("compiled")
    if whole is None:
        return record
    if whole.kind == "modelled":
        parts = max(1, new_tokens)
        bounds = whole.interval_ns and (whole.interval_ns[0] / parts, whole.interval_ns[1] / parts)
        samples = tuple(round(ns / parts) for ns in whole.samples_ns)
        first = dataclasses.replace(whole, what=FIRST_TOKEN, samples_ns=samples, interval_ns=bounds, parts=())
    else:
        times = tuple(times_ns[-len(whole.samples_ns) :])
        first = judged(Timing(FIRST_TOKEN, "measured", whole.device, times, whole.conditions))
    return dataclasses.replace(record, timings=(*record.timings, first))


class _Iteration:
    """One iteration. The first, which the spine makes on the device before it times any, tells its output as it comes;
    the timed ones tell nothing, on the device as on the CPU."""

    def __init__(self, iterate: Callable[[Any, Any], dict[str, Any]], events: Events) -> None:
        self._iterate, self._events = iterate, events
        self.shown = False
        self.first_token_ns: list[int] = []
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
            self.first_token_ns.append(output["first_token_ns"])
        return output


def _nobody(output: dict[str, Any]) -> None:
    """Nobody looks."""


def _named(workload: Workload, request: Request) -> Workload:
    task = TASKS[request.task]
    return dataclasses.replace(
        workload,
        name=f"{task.path} ({request.source})",
        labels=(("playground", (task.path,)), ("weights", (request.source,))),
        weights=request.source,
        random_weights=(task.model,) if request.source == "random" else (),
    )


def main(arguments: Sequence[str]) -> None:
    request = from_json(Request, json.loads(sys.stdin.read()))
    run(request, Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
