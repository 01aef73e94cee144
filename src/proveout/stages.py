"""What can be done with a Subject, as one table: each stage adds what it learnt to the Record."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from proveout import check, clock
from proveout.cause.explain import explain
from proveout.check import trust
from proveout.check.outputs import NOTHING_COMPARED, NOTHING_TO_COMPARE, holds_numbers
from proveout.coding import digest, to_json
from proveout.engine.compiled import Compiled, compile, undisturbed
from proveout.engine.host_part import has_host_part, host_part
from proveout.engine.prediction import ENOUGH, prediction, with_host
from proveout.engine.snapshot import save_calls
from proveout.errors import ProveoutError
from proveout.folders import default_folder, write_whole
from proveout.reduce.judge import Conditions
from proveout.reduce.minimize import minimize
from proveout.runtimes import quiet
from proveout.subject import Subject
from proveout.tracer import raw
from proveout.tracer.live import trace
from proveout.tune import search as tuning
from proveout.tune.certificate import Certificate
from proveout.tune.certificate import read as read_certificate
from proveout.tune.check import check as check_certificate
from proveout.tune.model import Model as TunedModel
from proveout.types import Do, Explain, Record, Timing, Trace, Tune

Stage = Callable[[Subject, Record], Record]


def stages_of(do: tuple[Do, ...]) -> list[str]:
    """The stages that a Job takes, in order: all compile, and all that do more run and compare the outputs."""
    if do in (("trace",), ("minimize",), ("tune",), ()):
        return list(do)
    taken = {"model", "compile", *do} | (set() if do == ("compile",) else {"run"})
    return [name for name in STAGES if name in taken]


def referenced(subject: Subject, record: Record) -> Record:
    """Eager mode first: what comes after must not disturb it."""
    if subject.is_compared:
        _ = subject.reference
    return record


def compiled(subject: Subject, record: Record) -> Record:
    """The candidate made ready; of our own compiler, what it made of the model."""
    graph_module, job = subject.candidate.compiled, subject.job
    if graph_module is None:
        return record
    if job.artifacts and not {"export", "perf", "explain"} & set(job.do):
        for number, program in enumerate(graph_module.programs):
            program.save(Path(job.artifacts, job.workload.name.replace("::", "."), f"program{number}"))
    # Taken now: an evaluation on other batch sizes compiles further graphs, which are not this workload's.
    part = replace(
        record,
        coverage=graph_module.coverage,
        memory=graph_module.memory,
        compile_s=graph_module.stages_s,
        programs=tuple((p.fingerprint, len(p.steps)) for p in graph_module.programs),
        fallbacks=graph_module.fallbacks,
    )
    return _with(part, _predicted(subject, graph_module, sum(p.total_ns for p in graph_module.plans)))


def exported(subject: Subject, record: Record) -> Record:
    """Programs, and the calls that ran them, for others to run."""
    job, compiled_model = subject.job, subject.candidate.compiled
    if job.artifacts and compiled_model is not None:
        with undisturbed(subject.model, subject.call):
            save_calls(compiled_model, *subject.call, Path(job.artifacts))
    return record


def ran(subject: Subject, record: Record) -> Record:
    """One call, its outputs against the reference's; on a modelled chip, its time."""
    if not subject.is_compared:
        return record
    job, candidate = subject.job, subject.candidate
    outputs, reference = subject.outputs()
    comparisons = tuple(check.compare_outputs(outputs, reference, job.settings.pcc))
    record = replace(record, comparisons=comparisons)
    if candidate.compiled is None:
        record = replace(record, coverage=candidate.coverage())
    else:
        ns = _of_iteration(subject, candidate.compiled)
        record = _with(record, _predicted(subject, candidate.compiled, ns))
        record = _with_host_part(subject, record, candidate.compiled)
    wrong = [c for c in comparisons if not c.passed]
    if not wrong and not holds_numbers(reference):
        return replace(record, status="failed", failure="numerics", reason=NOTHING_COMPARED)
    if not wrong:
        return record
    whose = ""
    if candidate.compiled is not None and wrong[0].reason != NOTHING_TO_COMPARE:
        with undisturbed(subject.model, subject.call):
            whose = check.eager_in(job.settings.precision, subject.model, *subject.call, reference, wrong[0])
    reason = f"output {wrong[0].name}: {wrong[0].reason}{whose}"
    return replace(record, status="failed", failure="numerics", reason=reason)


def checked(subject: Subject, record: Record) -> Record:
    """Every Step against its meaning, and the script's own accuracy."""
    compiled_model, evaluate = subject.candidate.compiled, subject.captured.evaluate
    if compiled_model is None:
        return record
    gaps = trust.Gaps() if subject.job.settings.numerics == "faithful" else None
    with undisturbed(subject.model, subject.call):
        steps = check.compare_steps(compiled_model, *subject.call, gaps)
    if gaps is not None and subject.is_compared:
        with compiled_model.in_numerics("fast"):
            outputs, reference = subject.outputs()
        fast = check.compare_outputs(outputs, reference, subject.job.settings.pcc)
        record = replace(record, trust=trust.judged(fast, record.comparisons, gaps.steps))
    record = replace(record, comparisons=(*record.comparisons, *steps))
    if evaluate is None:
        return record
    return replace(record, accuracy=evaluate(compiled_model), accuracy_eager=evaluate(subject.model))


def explained(subject: Subject, record: Record) -> Record:
    """Where the outputs' error comes from, op by op, in the Job's folder."""
    job, compiled_model, options = subject.job, subject.candidate.compiled, subject.job.explain or Explain()
    if compiled_model is None or not job.artifacts:
        return record
    path, other = Path(job.artifacts, "explain.json"), None
    path.unlink(missing_ok=True)  # of another question
    if options.settings is not None:
        other = compile(
            subject.model, device=options.device or job.device, settings=options.settings, call=subject.call
        )
    why = explain(compiled_model, subject.call, other, options.every)
    write_whole(path, json.dumps(to_json(why), indent=1, allow_nan=False) + "\n")
    return record


def minimized(subject: Subject, record: Record) -> Record:
    """The model's failure as one small file, in the Job's folder."""
    job, (args, kwargs) = subject.job, subject.call
    folder = Path(job.artifacts)
    file, figures = folder / "minimized.py", folder / "minimized.json"
    for left in (file, figures):  # of another failure, by other settings
        left.unlink(missing_ok=True)
    small = minimize(subject.model, args, kwargs, Conditions(job.device, job.settings, job.slower_than_ns))
    if small is None:
        return replace(record, reason="it does not fail: it compiles, runs and gives what eager mode gives")
    write_whole(file, small.text)
    write_whole(figures, json.dumps(to_json(small), indent=1, allow_nan=False) + "\n")
    return record


def tuned(subject: Subject, record: Record) -> Record:
    """The best decisions on single ops as a certificate in the Job's folder, or what does not hold of one."""
    job, options = subject.job, subject.job.tune or Tune()
    folder = Path(job.artifacts)
    folder.mkdir(parents=True, exist_ok=True)
    if options.check:
        certificate = read_certificate(Path(options.check))
        model = TunedModel(subject.model, subject.call, certificate.device, certificate.start)
        wrong = check_certificate(certificate, model)
        (folder / "checked.json").write_text(json.dumps({"wrong": wrong}) + "\n")
        return record
    script = hashlib.sha256(Path(job.workload.script).read_bytes()).hexdigest()
    model = TunedModel(subject.model, subject.call, job.device, job.settings)
    key = digest([job.workload.name, script, job.device, job.settings])[:20]
    kept = default_folder() / "tune" / "searches" / f"{key}.json"  # deeper than Records lie
    file = folder / "certificate.json"
    file.unlink(missing_ok=True)  # an earlier run's is not what this one leaves

    def keep(certificate: Certificate) -> None:
        write_whole(file, json.dumps(to_json(certificate), indent=1, allow_nan=False) + "\n")

    note = subject.watch.after_pass
    search = tuning.Options(options.goal, options.minutes, options.top1, kept=kept, note=note, better=keep)
    keep(tuning.tune(model, search, name=job.workload.name, script=script))
    return record


def timed(subject: Subject, record: Record) -> Record:
    """The original and the candidate, each by the clock, one after the other; no time of what computes nothing."""
    job, candidate = subject.job, subject.candidate
    calls: dict[str, tuple[str, Callable[..., Any]]] = {}
    if job.baseline and not job.workload.is_onnx:
        calls["eager"] = ("cpu", quiet(subject.model))
    if candidate.timed:
        calls[candidate.what] = (candidate.device, candidate.call)
    for what, (device, call) in calls.items():
        timing = clock.measured(
            what,
            device,
            subject.once(call),
            iterations=job.iterations,
            warmup=job.warmup,
            duration_s=job.duration_s / len(calls),
            enough_s=0.0 if what == "simulation" else job.enough_s or 0.0,
            note=functools.partial(subject.watch.sample, what),
        )
        record = _with(record, timing)
    return record


def traced(subject: Subject, record: Record) -> Record:
    """Every node of the model's graphs with its sizes, in the Job's folder."""
    job, options = subject.job, subject.job.trace or Trace()
    workload, folder = job.workload, Path(job.artifacts)
    stem = raw.file_name(workload.name, workload.selector, "original" if options.orig else "compiled")
    dump = trace(
        replace(subject.captured, workload=workload),
        orig=options.orig,
        backward=options.backward,
        profile=folder / "profile" / f"{stem}.json" if options.profile else None,
        device=job.device,
        settings=job.settings,
    )
    raw.save(dump, folder / "raw")
    return replace(record, reason=dump.note)


STAGES: dict[str, Stage] = {
    "model": referenced,
    "compile": compiled,
    "export": exported,
    "run": ran,
    "check": checked,
    "explain": explained,
    "minimize": minimized,
    "tune": tuned,
    "benchmark": timed,
    "trace": traced,
}
"""In the order in which they are taken. `perf` is a compilation that records what it runs."""


def _with(record: Record, timing: Timing | None) -> Record:
    """The Record with one more timing; a later one of the same name and kind takes its place."""
    if timing is None:
        return record
    others = tuple(t for t in record.timings if (t.what, t.kind) != (timing.what, timing.kind))
    return replace(record, timings=(*others, timing))


def _predicted(subject: Subject, compiled: Compiled, ns: int) -> Timing | None:
    """What the model of the chip says; beside a measured time of the same device it is no more than a prediction.

    Where the host has a part in a call it is the device's alone, and no time of a call until the host's is known;
    there is none where nothing runs on the device."""
    what = (
        "predicted" if subject.candidate.what != "simulation" else "device" if has_host_part(compiled) else "compiled"
    )
    return prediction(what, compiled, ns) if ns else None


HOST_S = 0.5
"""How long the host's part of a call is timed, again and again, after the samples that an interval takes."""
NO_TIME = "no time of a call on {}: what its host does could not be timed, for {}"


def _with_host_part(subject: Subject, record: Record, compiled: Compiled) -> Record:
    """The time of a whole call on a modelled chip whose host has a part in it, measured here; none, and why, where that
    part cannot be told from the rest."""
    device = record.timing("device")
    if device is None:
        return record
    try:
        with undisturbed(subject.model, subject.call):
            work = host_part(compiled, subject.once(compiled))
            if work is None:
                return _with(record, replace(device, what="compiled"))
            host = clock.measured("host", "cpu", work, iterations=ENOUGH, warmup=1, enough_s=HOST_S)
    except ProveoutError as error:
        return replace(record, reason=NO_TIME.format(subject.job.device, str(error).rstrip(".")))
    return _with(_with(record, host), with_host(device, host))


def _of_iteration(subject: Subject, compiled: Compiled) -> int:
    """Modelled time of what is timed once; the last call's where that is one call."""
    iterate = subject.captured.iterate
    if iterate is None:
        return compiled.modelled_ns or 0
    total = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal total
        outputs = compiled(*args, **kwargs)
        total += compiled.modelled_ns or 0
        return outputs

    iterate(counted)
    return total
