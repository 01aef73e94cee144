"""The spine: one Job in, one Record out.

Job ─ capture ─▶ model and inputs ─ compile ─▶ Programs ─ device ─▶ outputs + timings ─ check · measure ─▶ Record
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proveout import isolate, limits, recording
from proveout.capture.running import failure_of
from proveout.coding import from_json, to_json
from proveout.errors import CaptureError, ProveoutError
from proveout.types import Comparison, Job, Record, Timing

if TYPE_CHECKING:
    from proveout import runtimes
    from proveout.capture import Found

STEP_THRESHOLD = 0.97
"""PCC below which one Step, on the device's own operands, counts as wrong. bfloat16 keeps about 8 bits."""


def prove(job: Job, run: isolate.Runner | None = None) -> Record:
    """Do a Job in a process of its own, started by `run`. Whatever happens there, a Record comes back."""
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        result = Path(folder, "record.json")
        outcome = (run or isolate.run_python)(
            "proveout.prove", [str(result)], stdin=json.dumps(to_json(job)), timeout_s=job.timeout_s
        )
        if result.exists():
            record = from_json(Record, json.loads(result.read_text()))
            return dataclasses.replace(record, log=outcome.log if record.status == "failed" else "")
    return failed(job, outcome.failure, f"the worker {outcome.story}", outcome.log)


class Watch:
    """Follows a Job while it is done in this process; this one looks away."""

    def stage(self, name: str) -> None:
        """One of FAILURE_OF_STAGE begins."""

    def after_pass(self, name: str) -> None:
        """One of the compiler's passes has ended."""

    def sample(self, what: str, ns: int, warm: bool) -> None:
        """One timed call of the Timing `what`; a warm-up call is not among its samples."""


def prove_here(job: Job, live: Found | None = None, wanted: Any = None, watch: Watch | None = None) -> Record:
    """Do a Job in this process. `live` is its model where the caller has it; `wanted` the outputs to compare with,
    where they have the structure of eager's."""
    watch = watch or Watch()
    stage = "script"

    def enter(name: str) -> None:
        nonlocal stage
        stage = name
        watch.stage(name)

    try:
        import torch

        from proveout import capture, check, measure, runtimes
        from proveout.devices.registry import find
        from proveout.engine.compiled import compile, undisturbed
        from proveout.engine.snapshot import save_calls

        if job.workload.is_onnx:
            return _elsewhere(job, lambda: runtimes.run_onnx(job))
        found = live or capture.load(job.workload)
        torch.manual_seed(job.settings.seed)
        model, args, kwargs = found.module, found.args, found.kwargs
        eager = _quiet(model)
        if found.workload.obstacle:
            timed = dataclasses.replace(job, runtime="eager")
            only_timed = _elsewhere(job, lambda: runtimes.run_model(timed, found, eager))
            return dataclasses.replace(only_timed, status="failed", failure="capture", reason=found.workload.obstacle)
        if job.runtime != "proveout":
            return _elsewhere(job, lambda: runtimes.run_model(job, found, eager))

        enter("model")
        with undisturbed(model, (args, kwargs)):
            reference = _copied(eager(*args, **kwargs))
        reference = _preferred(wanted, reference)

        enter("compile")
        only_plan = job.do == ("compile",)
        dump = job.dump or None
        record = Path(job.artifacts) if "perf" in job.do and job.artifacts else None
        if record is not None:
            recording.clear(record)
        compiled = compile(
            model,
            device=job.device,
            settings=job.settings,
            dry_run=only_plan,
            dump=dump,
            record=record,
            call=(args, kwargs),
            after_pass=watch.after_pass,
        )
        if not compiled.graphs and compiled.coverage.graph_breaks:
            raise CaptureError(f"PyTorch captured nothing of the model: {'; '.join(compiled.coverage.graph_breaks)}")
        # Taken now: an evaluation on other batch sizes compiles further graphs, which are not this workload's.
        coverage, programs, memory = compiled.coverage, compiled.programs, compiled.memory
        fallbacks = compiled.fallbacks
        predicted = sum(p.total_ns for p in compiled.plans)
        if job.artifacts and "export" in job.do:
            with undisturbed(model, (args, kwargs)):
                save_calls(compiled, args, kwargs, Path(job.artifacts))
        elif job.artifacts and record is None:
            for number, program in enumerate(programs):
                program.save(Path(job.artifacts, job.workload.name.replace("::", "."), f"program{number}"))

        enter("run")
        comparisons: list[Comparison] = []
        timings: list[Timing] = []
        accuracy: tuple[float | None, float | None] = (None, None)
        if not only_plan:
            with undisturbed(model, (args, kwargs)):
                outputs = _copied(compiled(*args, **kwargs))
            predicted = _of_iteration(found, compiled) or predicted

            enter("check")
            comparisons += check.compare_outputs(outputs, reference, job.settings.pcc)
            if "check" in job.do:
                with undisturbed(model, (args, kwargs)):
                    comparisons += check.compare_steps(compiled, args, kwargs, STEP_THRESHOLD)
            if "check" in job.do and found.evaluate is not None:
                accuracy = (found.evaluate(compiled), found.evaluate(model))
        simulated = find(job.device).times == "modelled"
        if compiled.plans:
            timings.append(_modelled("compiled" if simulated else "predicted", compiled, predicted))

        enter("benchmark")
        if "benchmark" in job.do:
            how: dict[str, Any] = {"iterations": job.iterations, "warmup": job.warmup}
            how["duration_s"] = job.duration_s / 2
            what = "simulation" if simulated else "compiled"
            for name, place, call in (("eager", "cpu", eager), (what, compiled.device, compiled)):
                if name != "eager" or job.baseline:
                    note = functools.partial(watch.sample, name)
                    timings.append(measure.measured(name, place, _once(found, call), note=note, **how))

        wrong = [c for c in comparisons if not c.passed and c.scope == "output"]
        reason = ""
        if wrong:
            with undisturbed(model, (args, kwargs)):
                whose = check.eager_in(job.settings.precision, model, args, kwargs, reference, wrong[0])
            reason = f"output {wrong[0].name}: {wrong[0].reason}{whose}"
        return Record(
            job,
            status="failed" if wrong else "passed",
            reason=reason,
            failure="numerics" if wrong else "",
            coverage=coverage,
            comparisons=tuple(comparisons),
            timings=tuple(timings),
            memory=memory,
            accuracy=accuracy[0],
            accuracy_eager=accuracy[1],
            compile_s=compiled.stages_s,
            programs=tuple((p.fingerprint, len(p.steps)) for p in programs),
            fallbacks=fallbacks,
            environment=measure.environment(),
            created=_now(),
        )
    except ProveoutError as error:
        return failed(job, error.failure, str(error) + _blame(error))
    except Exception as error:
        traceback.print_exc()
        first = (str(error).strip().splitlines() or [""])[0]
        failure = "memory" if failure_of(error) == "memory" else FAILURE_OF_STAGE[stage]
        return failed(job, failure, f"{stage}: {type(error).__name__}: {first}{_blame(error)}")


def _blame(error: BaseException) -> str:
    """Which of the compiler's passes an error comes from, where it comes from one; Dynamo may have wrapped it."""
    chain: list[BaseException] = [error]
    while (inner := getattr(chain[-1], "inner_exception", None) or chain[-1].__cause__) and inner not in chain:
        chain.append(inner)
    notes = [note for e in chain for note in getattr(e, "__notes__", ())]
    return f" ({notes[0]})" if notes else ""


def _once(found: Found, call: Callable[..., Any]) -> Callable[[], Any]:
    """What is timed: one call on the model's inputs, or what the caller's `iterate` makes of several."""
    if found.iterate is None:
        return lambda: call(*found.args, **found.kwargs)
    iterate = found.iterate
    return lambda: iterate(call)


def _of_iteration(found: Found, compiled: Any) -> int:
    """Modelled time of what is timed once; the last call's where that is one call."""
    if found.iterate is None:
        return compiled.modelled_ns or 0
    total = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal total
        outputs = compiled(*args, **kwargs)
        total += compiled.modelled_ns or 0
        return outputs

    found.iterate(counted)
    return total


def _elsewhere(job: Job, run: Callable[[], runtimes.Ran]) -> Record:
    """The Record of a model that something else than our compiler runs."""
    from proveout import measure

    ran = run()
    wrong = [c for c in ran.comparisons if not c.passed]
    return Record(
        job,
        status="failed" if wrong else "passed",
        reason=f"output {wrong[0].name}: {wrong[0].reason}" if wrong else "",
        failure="numerics" if wrong else "",
        comparisons=ran.comparisons,
        timings=ran.timings,
        environment=measure.environment(),
        created=_now(),
    )


def _modelled(what: str, compiled: Any, predicted: int) -> Timing:
    """The prediction with its interval; called graphs are as uncertain as their Plans."""
    from proveout import measure

    times = [plan.time for plan in compiled.plans]
    planned = sum(t.ns for t in times) or 1
    interval = (
        round(predicted * sum(t.low_ns for t in times) / planned),
        round(predicted * sum(t.high_ns for t in times) / planned),
    )
    share = sum(t.calibrated * t.ns for t in times) / planned
    return measure.modelled(what, compiled.device, predicted, interval, share)


FAILURE_OF_STAGE = {
    "script": "script",
    "model": "script",
    "compile": "lowering",
    "run": "device",
    "check": "numerics",
    "benchmark": "device",
}


def _quiet(model: Any) -> Callable[..., Any]:
    """The model in eager mode as a Compiled runs it: without autograd unless it is being trained."""
    import torch

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad() if model.training else torch.no_grad():
            return model(*args, **kwargs)

    return call


def _preferred(wanted: Any, reference: Any) -> Any:
    """The outputs that a caller has, unless they are none or picked from what the model gives."""
    from proveout.check.outputs import leaves

    return (
        wanted
        if wanted is not None and [n for n, _ in leaves(wanted)] == [n for n, _ in leaves(reference)]
        else reference
    )


def _copied(outputs: Any) -> Any:
    """Outputs that may share memory with inputs or buffers, kept as they are now."""
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, torch.clone, outputs)


def failed(job: Job, failure: str, reason: str, log: str = "") -> Record:
    """The Record of a Job that gave nothing else."""
    return Record(job, "failed", reason=reason, failure=failure, log=log, created=_now())


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def main(arguments: Sequence[str]) -> None:
    """The worker's side of `prove`: a Job on stdin, the Record into the file named by the only argument."""
    job = from_json(Job, json.loads(sys.stdin.read()))
    path = Path(arguments[0])

    def write(record: Record) -> None:
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(to_json(record), allow_nan=False))
        partial.rename(path)

    try:
        limits.impose(job.limits, scratch=str(path.parent), stopping=lambda why: write(failed(job, "crash", why)))
    except ProveoutError as error:
        write(failed(job, error.failure, str(error)))
        return
    if job.lean or job.limits.sandbox:
        os.environ["PROVEOUT_CACHE"] = str(path.parent)  # gone with this folder
    write(prove_here(job))


if __name__ == "__main__":
    main(sys.argv[1:])
