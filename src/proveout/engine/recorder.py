"""Records the Programs of one process as they run, each with its alternatives under other settings."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from proveout import recording
from proveout.compiler import CompiledGraph
from proveout.compiler.ledger import ledger
from proveout.errors import ProveoutError
from proveout.kernels.cost import program_time, step_times
from proveout.program import Program
from proveout.recording import CHANGES, Recorded, changed, shape
from proveout.types import DeviceSpec, Settings

Again = Callable[[Settings], CompiledGraph]


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
            alternatives = tuple(_alternatives(compiled, compiled.chip, again))
            fallbacks = ledger([compiled], compiled.chip, compiled.settings)
            recorded = Recorded(device, compiled.chip, compiled.settings, compiled.program, alternatives, fallbacks)
            recording.save(recorded, folder)
        recording.note_call(self._seen[id(compiled)][1])


@functools.cache
def _of_process(folder: Path, pid: int) -> Recorder:
    """Processes that record into the same folder keep their Programs apart."""
    return Recorder(folder, f"process{pid}-program")


def _alternatives(compiled: CompiledGraph, chip: DeviceSpec, again: Again) -> Iterator[tuple[Settings, Program]]:
    """The graph under each of the changes, and under each that is left on top of the one that saves the most, and so
    on: the way that advice goes."""
    known: dict[tuple[object, ...], Program | None] = {shape(compiled.settings): compiled.program}
    settings, ns = compiled.settings, _call_ns(compiled.program, chip, compiled.settings)
    while True:
        steps: list[tuple[int, Settings]] = []
        for change in CHANGES:
            chosen = changed(settings, change)
            if chosen is None:
                continue
            if shape(chosen) not in known:
                program = known[shape(chosen)] = _compiled(chosen, again)
                if program is not None:
                    yield chosen, program
            other = known[shape(chosen)]
            steps += [(_call_ns(other, chip, chosen), chosen)] if other is not None else []
        best_ns, best = min(steps, key=lambda step: step[0], default=(ns, settings))
        if best_ns >= ns:
            return
        settings, ns = best, best_ns


def _compiled(settings: Settings, again: Again) -> Program | None:
    """None where a graph does not compile that way, or does not fit."""
    try:
        compiled = again(settings)
    except ProveoutError:
        return None
    return compiled.program if compiled.plan is not None and compiled.plan.memory.fits else None


def _call_ns(program: Program, chip: DeviceSpec, settings: Settings) -> int:
    return program_time(step_times(program, chip, settings), settings).ns
