"""One change of the advice, made: what it was predicted to save beside what the new plan says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proveout.errors import UsageError
from proveout.recording import Recorded
from proveout.report.perf.advice import advise, call_ns, predicted_ns
from proveout.report.perf.changes import Advice
from proveout.report.perf.view import signed, time, without_host


def chosen(name: str, recorded: Sequence[Recorded], number: int) -> Advice:
    """Change `number` of the advice; refused where there is none."""
    advice = advise(recorded)
    if number > len(advice):
        raise UsageError(f"--apply {number}: there are {len(advice)} changes for {name}. Run without it to see them.")
    return advice[number - 1]


def outcome(
    name: str, change: Advice, before: Sequence[Recorded], after: Sequence[Recorded], num_breaks: int
) -> dict[str, Any]:
    """The two savings side by side, with a text of them; after it, the model's graphs break so often."""
    now, then = call_ns(before), call_ns(after)
    predicted = now - predicted_ns(before, [change])
    words = ", ".join(f"{key}={value}" for key, value in change.settings.items())
    missing = without_host(sum(step.on_host for one in after for step in one.program.body), num_breaks)
    call = f"a call on the chip, {missing}, modelled" if missing else "a call, modelled"
    text = (
        f"{name}: {change.change} ({words})\n"
        f"  {time(now)} → {time(then)} {call}\n"
        f"  predicted to save {time(predicted)}, saves {signed(now - then)}"
    )
    return {
        "model": name, "change": change.change, "settings": change.settings, "before_ns": now, "after_ns": then,
        "predicted_ns": predicted, "realised_ns": now - then, "text": text,
    }  # fmt: skip
