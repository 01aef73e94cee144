"""Questions to a process of its own, which runs a stranger's script: what it answers is a stranger's word."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Protocol, TypeVar

from proveout.coding import from_json, to_json
from proveout.isolate import read_answer, run_python


class Answer(Protocol):
    """What a worker says, or why there is nothing to say."""

    def __init__(self, *, error: str, failure: str) -> None: ...


A = TypeVar("A", bound=Answer)


def answered(module: str, question: object, kind: type[A], name: str, timeout_s: float) -> A:
    """The answer of a module of ours in a worker; one that gave none, or none that can be, is told by how it ended."""
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        path = Path(folder, "answer.json")
        end = run_python(module, [str(path)], stdin=json.dumps(to_json(question)), timeout_s=timeout_s)
        if not os.path.lexists(path):
            last = end.log.strip().splitlines()[-1:]
            return kind(error=" ".join([f"{name}: {end.story}.", *last]), failure=end.failure or "crash")
        try:
            answer: A = from_json(kind, read_answer(path))
        except (ValueError, TypeError, LookupError) as error:
            return kind(error=f"{name}: its script changed what is said about it: {error}", failure="crash")
        return answer
