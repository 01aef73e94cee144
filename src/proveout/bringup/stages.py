"""The table of stages: what each is called, whose files it reads, and which file of this package runs it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from proveout.errors import unknown

if TYPE_CHECKING:
    from proveout.bringup.stage import Files, StageResult
    from proveout.bringup.subject import Subject


@dataclass(frozen=True)
class Stage:
    """One row of the table."""

    name: str
    title: str
    module: str
    """The file of this package whose `run` it is; imported when the stage runs, since it brings torch with it."""
    needs: tuple[str, ...] = ()
    """Stages whose files it reads."""
    always: bool = False
    """Whether it runs whatever became of the stages before it, and again whenever one of them changed."""

    @functools.cached_property
    def run(self) -> Callable[[Subject, Files], StageResult]:
        run: Callable[[Subject, Files], StageResult] = import_module(f"{__package__}.{self.module}").run
        return run


STAGES: tuple[Stage, ...] = (
    Stage("card", "Model card", "card"),
    Stage("reference", "Reference outputs", "reference"),
    Stage("graph", "Graph", "graph"),
    Stage("summary", "Summary", "summary", ("graph",)),
    Stage("op-tests", "Op tests", "op_tests", ("graph",)),
    Stage("missing", "Missing ops", "missing", ("graph",)),
    Stage("end-to-end", "End to end", "end_to_end", ("card", "reference", "graph")),
    Stage("optimise", "Optimise", "optimise", ("card", "reference", "graph")),
    Stage("modules", "Optimised ttnn model", "modules", ("reference", "graph", "optimise")),
    Stage("perf", "Perf sheet", "perf", ("optimise",)),
    Stage("trace", "Trace and queues", "trace", ("modules", "optimise")),
    Stage("decoder", "Decoder", "decoder"),
    Stage("report", "Report", "report", always=True),
)
NUMBERS = {stage.name: number for number, stage in enumerate(STAGES, 1)}


def find_stage(name: str) -> Stage:
    if name not in NUMBERS:
        raise unknown("stage", name, NUMBERS)
    return STAGES[NUMBERS[name] - 1]


def with_needs(name: str) -> list[str]:
    """A stage and those whose files it reads, in order."""
    needed = {name}
    for stage in reversed(STAGES):
        if stage.name in needed:
            needed.update(stage.needs)
    return [stage.name for stage in STAGES if stage.name in needed]
