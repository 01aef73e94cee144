"""Every Step against its float32 meaning: on the device's own operands (isolated), and from the start (accumulated)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from proveout.check.compare import compare, pcc_between
from proveout.check.exact import draws, exactly, joined, wide
from proveout.check.thresholds import step_threshold
from proveout.devices.execute import is_placement
from proveout.engine.compiled import Compiled
from proveout.engine.graph import Variant
from proveout.kernels.arithmetic.errata import counting
from proveout.program import DEALLOCATE, Loaded, Program, Step
from proveout.types import Comparison

Note = Callable[[Program, Step, Mapping[str, Any], tuple[Any, ...], int], None]
"""Told of each Step on the chip: its Program, its operands, its results, and how often tt-metal#38306 spoilt a sum."""


def compare_steps(
    compiled: Compiled, args: Sequence[Any], kwargs: dict[str, Any], note: Note | None = None
) -> list[Comparison]:
    """Run a compiled model once more and replay each of its graphs Step by Step."""
    runs: list[tuple[Variant, Loaded, list[Any]]] = []

    def keep(variant: Variant, arguments: Sequence[Any]) -> None:
        inputs = [arguments[i] for i in variant.compiled.input_positions]
        kept = [t.clone() if isinstance(t, torch.Tensor) else t for t in inputs]
        runs.append((variant, variant.ready(arguments), kept))

    with compiled.watching(keep):
        compiled(*args, **kwargs)
    fidelity = compiled.settings.math_fidelity
    return [c for _, loaded, inputs in runs for c in replay(loaded, inputs, fidelity, note)]


def replay(
    loaded: Loaded, inputs: Sequence[Any], fidelity: str | None = None, note: Note | None = None
) -> list[Comparison]:
    """The body twice, side by side: as the device computes it, and in float32; each Step judged by the one rule."""
    program = loaded.program
    device: dict[str, Any] = dict(zip(program.inputs, inputs))
    out = []
    with torch.no_grad():
        exact = {**device, **_setup(loaded)}
        device.update((name, loaded.value(name)) for name in program.resident)
        last = {name: i for i, step in enumerate(program.body) for name in (*step.uses, *step.outputs)}
        for index, step in enumerate(program.body):
            if step.kernel != DEALLOCATE:
                with counting() as errata:
                    results = loaded.run_step(step, device)
                if note is not None and not step.on_host and not step.is_transfer:
                    note(program, step, device, results, errata.hits)
                isolated = exactly(step, {n: wide(device[n]) for n in step.uses}, results, program.chips)
                accumulated = exactly(step, exact, results, program.chips)
                least = step_threshold(step, program.specs, fidelity).pcc
                for position, name in enumerate(step.outputs):
                    device[name], exact[name] = results[position], wide(accumulated[position])
                    if not step.on_host and not step.is_transfer and not is_placement(step):
                        result, alone, overall = results[position], isolated[position], accumulated[position]
                        out.append(_judge(step, name, result, alone, overall, least))
            for name in (*step.uses, *step.outputs):
                if last[name] == index and name not in program.inputs:
                    device.pop(name, None), exact.pop(name, None)
    return out


def _setup(loaded: Loaded) -> dict[str, Any]:
    """What the body reads of weights and setup, in float32; what only setup reads goes after its last use."""
    program, kept = loaded.program, frozenset(loaded.program.resident)
    exact = {name: loaded.value(name) for name in (*program.weights, *(c.name for c in program.constants))}
    last = {name: index for index, step in enumerate(program.setup) for name in (*step.uses, *step.outputs)}
    for index, step in enumerate(program.setup):
        if step.kernel != DEALLOCATE:
            exact.update(zip(step.outputs, exactly(step, exact, (), program.chips)))
        for name in (*step.uses, *step.outputs):
            if last[name] == index and name not in kept:
                exact.pop(name, None)
    return exact


def exact_values(loaded: Loaded, inputs: Sequence[Any], wanted: frozenset[str]) -> dict[str, Any]:
    """Some of a Program's values as float32 has them, computed from the inputs on."""
    program = loaded.program
    exact: dict[str, Any] = dict(zip(program.inputs, inputs))
    for name in (*program.weights, *(c.name for c in program.constants)):
        exact[name] = loaded.value(name)
    last = {name: i for i, step in enumerate(program.steps) for name in (*step.uses, *step.outputs)}
    with torch.no_grad():
        for index, step in enumerate(program.steps):
            if step.kernel != DEALLOCATE:
                results = loaded.run_step(step, exact) if draws(step) else exactly(step, exact, (), program.chips)
                exact.update((name, wide(value)) for name, value in zip(step.outputs, results))
            for name in (*step.uses, *step.outputs):
                if last[name] == index and name not in wanted and name not in program.inputs:
                    exact.pop(name, None)
    return {name: exact[name] for name in wanted if name in exact}


def _judge(step: Step, name: str, actual: Any, isolated: Any, accumulated: Any, threshold: float) -> Comparison:
    actual, isolated, accumulated = map(joined, (actual, isolated, accumulated))
    overall = pcc_between(actual, accumulated)
    return compare(
        actual, isolated, name=name, threshold=threshold, scope="step", origin=step.origin, accumulated_pcc=overall
    )
