"""Records the Programs of one process as they run, each with its alternatives under other settings."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from proveout import recording
from proveout.compiler import CompiledGraph
from proveout.compiler.ledger import ledger
from proveout.errors import ProveoutError
from proveout.recording import Recorded
from proveout.types import Settings

Again = Callable[[Settings], CompiledGraph]
CHANGES: dict[str, Any] = {"trace": True, "weights": "bfloat8_b", "precision": "bfloat16", "memory": "auto"}
"""Settings that make another Program of the same graph, and maybe a quicker one."""


class Recorder:
    """Saves each Program when it first runs; counts the runs."""

    def __init__(self, folder: Path, prefix: str = "program") -> None:
        self.folder, self.prefix = folder, prefix
        self._numbers = itertools.count()
        self._seen: dict[int, tuple[CompiledGraph, Path]] = {}

    @staticmethod
    def of_environment() -> Recorder | None:
        """The one of this process, if it is to record at all."""
        folder = recording.wanted()
        return _of_process(folder, os.getpid()) if folder else None

    def ran(self, compiled: CompiledGraph, device: str, again: Again) -> None:
        """Note one run. `again` compiles the graph under other settings."""
        if compiled.chip is None:
            return
        if id(compiled) not in self._seen:
            folder = self.folder / f"{self.prefix}{next(self._numbers)}"
            self._seen[id(compiled)] = compiled, folder  # the graph is kept, so that its id stays its own
            alternatives = tuple(_alternatives(compiled.settings, again))
            fallbacks = ledger([compiled], compiled.chip, compiled.settings)
            recorded = Recorded(device, compiled.chip, compiled.settings, compiled.program, alternatives, fallbacks)
            recording.save(recorded, folder)
        recording.note_call(self._seen[id(compiled)][1])


@functools.cache
def _of_process(folder: Path, pid: int) -> Recorder:
    """Processes that record into the same folder keep their Programs apart."""
    return Recorder(folder, f"process{pid}-program")


def _alternatives(settings: Settings, again: Again) -> Iterator[tuple[Settings, Any]]:
    """The graph under every combination of the changes that are not there yet."""
    left = {
        k: v for k, v in CHANGES.items() if getattr(settings, k) != v and not (k == "weights" and settings.overrides)
    }
    for names in itertools.chain.from_iterable(itertools.combinations(left, n) for n in range(1, len(left) + 1)):
        chosen = replace(settings, **{name: left[name] for name in names})
        try:
            compiled = again(chosen)
        except ProveoutError:
            continue  # a graph that does not compile that way has no such alternative
        if compiled.plan is not None and compiled.plan.memory.fits:
            yield chosen, compiled.program
