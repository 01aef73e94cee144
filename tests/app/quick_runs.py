"""Requests that are quick to serve."""

from __future__ import annotations

from proveout.app import pictures
from proveout.app.tasks import TASKS, Inputs, Request


def quick(task: str, tmp_path, **changes) -> Request:
    """The smallest run of a task."""
    kind = TASKS[task].kind
    if kind == "classify":
        first = next(iter(pictures.samples(task).values()))
        inputs = Inputs(image=pictures.encoded(pictures.opened(first.read_bytes())))
    elif kind == "generate":
        inputs = Inputs(prompt=TASKS[task].defaults.prompt, length=12, new_tokens=3)
    else:
        inputs = Inputs(context="Ann likes rice.", question="What does Ann like?", length=32)
    given = {"iterations": 1, "warmup": 1, "enough_s": 0.0, "cache_dir": str(tmp_path / "cache"), **changes}
    return Request(task, given.pop("inputs", inputs), **given)
