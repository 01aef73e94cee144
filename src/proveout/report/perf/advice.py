"""What would make a call quicker: every change is planned again, and only those that save time are told.

A setting is predicted by the Program that the compiler makes under it, with the time model that plans every Program, so
that what it saves when it is applied is what was predicted; what no setting does is a note. Changes are ranked by what
they save on top of those before them: a lower fidelity saves nothing while the host's dispatch is what the chip waits
for, and a lot inside a trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from proveout.kernels.cost import StepTime, program_time, step_times
from proveout.kernels.table import kind_of
from proveout.program import Step
from proveout.recording import CHANGES, Recorded
from proveout.report.perf.changes import Advice, Change, Note

LEAST = 0.002
"""Share of the call's time below which a saving is not worth a line."""
PLACES = 3
"""Places in the model that a line names."""
HOW = {
    "trace": "--trace (one for each stretch between host ops)",
    "queues": "--queues 2",
    "precision": "--precision bfloat16",
}
"""What to type, where it is not `--set`."""
CHANGES_NUMBERS = ("math_fidelity", "weights", "precision")
HAS_PLACES = ("weights", "memory", "products", "sharding")
"""Settings that make some calls quicker and leave others as they are."""
LAYOUT_WHY = "the op before gives the one layout and the op after takes only the other"


def advise(recorded: Sequence[Recorded]) -> tuple[Advice, ...]:
    """Changes worth making, the one that saves the most first, each next one on top of those before it."""
    left = _settings()
    done: list[Change] = []
    whole = now = _total(recorded, ())
    advices: list[Advice] = []
    while left:
        after = {id(change): _total(recorded, (*done, change)) for change in left}
        best = min(left, key=lambda change: after[id(change)])
        saved = now - after[id(best)]
        if saved < max(1, LEAST * whole):
            break
        alone = max(0, whole - _total(recorded, (best,)))
        now = after[id(best)]
        gains = sorted((g for r in recorded for g in _gains(_with(r, done), best)), key=lambda gain: -gain[0])
        places = dict.fromkeys(_place(step) for _, step in gains)
        calls = dict.fromkeys(_call(step) for _, step in gains)
        advices.append(
            Advice(best.title, saved, alone, now, best.how, tuple(places), tuple(calls)[:PLACES], best.settings)
        )
        left.remove(best)
        done.append(best)
    return tuple(advices)


def call_ns(recorded: Sequence[Recorded]) -> int:
    """One call of every Program as it was recorded."""
    return _total(recorded, ())


def predicted_ns(recorded: Sequence[Recorded], advices: Sequence[Advice]) -> int:
    """One call of every Program with these changes alone."""
    titles = [advice.change for advice in advices]
    return _total(recorded, [change for change in _settings() if change.title in titles])


def notes(recorded: Sequence[Recorded]) -> tuple[Note, ...]:
    """What takes time that no setting saves, the most first: conversions of layouts, transfers of ops on the host."""
    moved = [t for one in recorded for t in _times(one) if kind_of(t.step) == "layout"]
    hosted = [line for one in recorded for line in one.fallbacks if (line.saved_ns or 0) > 0]
    found = [Note(f"transfers of {f.aten}, which runs on the host", f.saved_ns or 0, f.fix, f.modules) for f in hosted]
    if moved:
        places = dict.fromkeys(_place(t.step) for t in sorted(moved, key=lambda t: -t.ns))
        what = f"{len(moved)} conversion{'s' * (len(moved) > 1)} of layout"
        found.append(Note(what, sum(t.ns for t in moved), LAYOUT_WHY, tuple(places)))
    least = max(1, LEAST * call_ns(recorded))
    return tuple(sorted((n for n in found if n.takes_ns >= least), key=lambda note: -note.takes_ns))


def _total(recorded: Sequence[Recorded], changes: Sequence[Change]) -> int:
    changed = [_with(one, changes) for one in recorded]
    return sum(program_time(_times(one), one.settings).ns for one in changed)


def _with(recorded: Recorded, changes: Sequence[Change]) -> Recorded:
    """A Program compiled under these changes; one that does not apply to it leaves it be."""
    for change in changes:
        recorded = recorded.with_change(change.title) or recorded
    return recorded


def _times(recorded: Recorded) -> list[StepTime]:
    return step_times(recorded.program, recorded.chip, recorded.settings)


def _gains(recorded: Recorded, change: Change) -> list[tuple[int, Step]]:
    """What each module's kernels gain by a change of some calls, by the one of them that takes the longest."""
    if not change.settings.keys() & set(HAS_PLACES):
        return []
    before, after = _times(recorded), _times(_with(recorded, [change]))
    gains: dict[str, int] = defaultdict(int)
    longest: dict[str, StepTime] = {}
    for sign, times in ((1, before), (-1, after)):
        for time in times:
            if time.kernel is not None:
                gains[time.step.origin.module] += sign * time.ns
    for time in before:
        module = time.step.origin.module
        if module not in longest or time.ns > longest[module].ns:
            longest[module] = time
    return [(gain, longest[module].step) for module, gain in gains.items() if gain > 0 and module in longest]


def _place(step: Step) -> str:
    return step.origin.module or "the model itself"


def _call(step: Step) -> str:
    """A call in words: the kernel, the module that asks for it, and the user's line."""
    line = f", {PurePath(step.origin.source).name}" if step.origin.source else ""
    return f"{step.kernel} in {_place(step)}{line}"


def _settings() -> list[Change]:
    return [Change(title, _how(settings), settings) for title, settings in CHANGES.items()]


def _how(settings: dict[str, Any]) -> str:
    words = " ".join(HOW.get(name, f"--set {name}={value}") for name, value in settings.items())
    return f"{words}; check the PCC" if settings.keys() & set(CHANGES_NUMBERS) else words
