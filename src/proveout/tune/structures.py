"""The ways to place results and to cut products of a whole model, and the decisions that are worth weighing in them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from proveout.compiler import CompiledGraph
from proveout.compiler.program_passes.decide import SHARDS
from proveout.tune.certificate import Rejected
from proveout.tune.model import Model
from proveout.tune.space import Decision, Times
from proveout.types import DeviceSpec, Settings

LEAST_GAIN = 0.0005
"""Share of the time below which a value is not worth measuring."""
STRUCTURES = tuple(
    {"memory": memory, "sharding": sharding, "products": products}
    for memory, sharding, products in itertools.product(
        ("dram", "auto"), ("interleaved", "auto"), ("default", "configured")
    )
)
EXACT = {"result": ("float32",), "weights": ("float32",), "fidelity": ("HiFi3", "HiFi4"), "accumulate": ("float32",)}
"""Values that are there to make a model more exact; they save no time."""


@dataclass(frozen=True)
class Structure:
    """Where results lie and how products are cut: the same decisions cost other times in each."""

    settings: Settings
    graphs: tuple[CompiledGraph, ...]
    times: Times


def ways_of(model: Model, start: Settings, cure: bool) -> list[tuple[Settings, tuple[CompiledGraph, ...]]]:
    """The ways to place results and to cut products that give different Programs, the quickest first; of a cure, the
    one that there is."""
    planned: dict[tuple[str, ...], tuple[int, Settings, tuple[CompiledGraph, ...]]] = {}
    for way in ({},) if cure else STRUCTURES:
        settings = replace(start, **way)  # type: ignore[arg-type]
        graphs = model.planned(settings)
        if graphs is not None:
            ns = sum(g.plan.total_ns for g in graphs if g.plan)
            planned.setdefault(tuple(g.program.fingerprint for g in graphs), (ns, settings, graphs))
    return [(settings, graphs) for _, settings, graphs in sorted(planned.values(), key=lambda one: one[0])]


def worthwhile(
    decisions: list[Decision],
    graphs: tuple[CompiledGraph, ...],
    chip: DeviceSpec,
    settings: Settings,
    cure: bool,
    least_gain: float = LEAST_GAIN,
) -> tuple[list[Decision], int, list[Rejected]]:
    """Decisions without the values that cannot be had, or that change neither the time nor the error enough; what those
    could save at most, one by one; and each of them that saves something."""
    singles = {}
    for d, decision in enumerate(decisions):
        alone = Times.of(graphs, [decision], chip, settings)
        for v in range(len(decision.values)):
            singles[d, v] = alone.ns({0: v})
    out, saved_ns, small = [], 0, list[Rejected]()
    for d, decision in enumerate(decisions):
        now = singles[d, 0]
        assert now is not None
        values, left_out = [decision.values[0]], 0
        for v, value in enumerate(decision.values):
            after = singles[d, v]
            if not cure and decision.about == "memory" and value in SHARDS:
                values.append(value)  # pays only where neighbours lie in the same
                continue
            if v == 0 or after is None:
                continue
            exact = value in EXACT.get(decision.about, ())
            gains = now - after >= least_gain * now
            if (exact and (cure or gains)) or (gains and not cure):
                values.append(value)
            else:
                left_out = max(left_out, now - after)
                if after < now and not cure:  # what is less exact cures nothing
                    small.append(Rejected(decision.said(v), now - after, None, "gain too small"))
        saved_ns += left_out
        if len(values) > 1:
            out.append(replace(decision, values=tuple(values)))
    return out, saved_ns, small
