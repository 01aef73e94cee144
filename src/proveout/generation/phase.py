"""One kind of call of a Generator, compiled."""

from __future__ import annotations

from dataclasses import dataclass

from proveout.compiler.plan import Plan
from proveout.engine.compiled import Compiled
from proveout.engine.host_part import has_host_part
from proveout.kernels.cost import ProgramTime
from proveout.program import Program
from proveout.types import MemoryUse

LOGITS = "decode logits"
"""The decode call that gives logits, where another one gives tokens."""


@dataclass(frozen=True, eq=False)
class Phase:
    """One kind of call, compiled: `decode`, or `prefill` of so many prompts of one padded length."""

    name: str
    compiled: Compiled

    @property
    def programs(self) -> tuple[Program, ...]:
        return self.compiled.programs

    @property
    def program(self) -> Program:
        """The Program of this call; where it has several graphs, the one with the most Steps."""
        return self.compiled.program

    @property
    def plan(self) -> Plan | None:
        """Modelled cost of `program`; None on devices that are not modelled."""
        return self.compiled.plan

    @property
    def predicted(self) -> ProgramTime | None:
        """Modelled time of one call, with its interval: for decode over a full cache. None where time is measured, and
        where the host has a part in the call, whose time no plan knows."""
        return None if has_host_part(self.compiled) else self.chip_alone

    @property
    def chip_alone(self) -> ProgramTime | None:
        """Modelled time of the chip's part of one call: all of it where the host has none."""
        times = [plan.time for plan in self.compiled.plans]
        if not times:
            return None
        whole = sum(t.ns for t in times)
        calibrated = sum(t.calibrated * t.ns for t in times) / max(whole, 1)
        return ProgramTime(whole, sum(t.low_ns for t in times), sum(t.high_ns for t in times), calibrated)

    @property
    def memory(self) -> MemoryUse:
        """Modelled peaks of this call, weights and cache included."""
        return self.compiled.memory

    @property
    def modelled_ns(self) -> int | None:
        """Modelled time of the last call; None on devices whose time is measured."""
        return self.compiled.modelled_ns
