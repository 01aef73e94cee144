"""Every Step against its float32 meaning: on the device's own operands (isolated), and from the start (accumulated)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from proveout.check.compare import compare, pcc_between
from proveout.check.thresholds import step_threshold
from proveout.devices.execute import aten_op, is_placement, on_chips, run_step, unrounded
from proveout.engine.compiled import Compiled
from proveout.engine.graph import Variant
from proveout.kernels.arithmetic.errata import counting
from proveout.kernels.pieces import Pieces
from proveout.program import DEALLOCATE, Arg, Loaded, Name, Program, Step
from proveout.types import Comparison

NARROW = {f"ttnn.{d}" for d in ("bfloat16", "bfloat8_b", "bfloat4_b")}


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
    exact: dict[str, Any] = dict(device)
    for name in (*program.weights, *(c.name for c in program.constants)):
        device[name] = exact[name] = loaded.value(name)
    out = []
    with torch.no_grad():
        for step in program.setup:
            if step.kernel != DEALLOCATE:
                device.update((n, loaded.value(n)) for n in step.outputs)
                exact.update(zip(step.outputs, _exactly(step, exact, (), program.chips)))
        last = {name: i for i, step in enumerate(program.body) for name in (*step.uses, *step.outputs)}
        for index, step in enumerate(program.body):
            if step.kernel != DEALLOCATE:
                with counting() as errata:
                    results = loaded.run_step(step, device)
                if note is not None and not step.on_host and not step.is_transfer:
                    note(program, step, device, results, errata.hits)
                isolated = _exactly(step, {n: _wide(device[n]) for n in step.uses}, results, program.chips)
                accumulated = _exactly(step, exact, results, program.chips)
                least = step_threshold(step, program.specs, fidelity).pcc
                for position, name in enumerate(step.outputs):
                    device[name], exact[name] = results[position], _wide(accumulated[position])
                    if not step.on_host and not step.is_transfer and not is_placement(step):
                        found, alone, overall = results[position], isolated[position], accumulated[position]
                        out.append(_judge(step, name, found, alone, overall, least))
            for name in (*step.uses, *step.outputs):
                if last[name] == index and name not in program.inputs:
                    device.pop(name, None), exact.pop(name, None)
    return out


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
                random = step.on_host and torch.Tag.nondeterministic_seeded in aten_op(step.kernel).tags  # type: ignore[attr-defined]
                results = loaded.run_step(step, exact) if random else _exactly(step, exact, (), program.chips)
                exact.update((name, _wide(value)) for name, value in zip(step.outputs, results))
            for name in (*step.uses, *step.outputs):
                if last[name] == index and name not in wanted and name not in program.inputs:
                    exact.pop(name, None)
    return {name: exact[name] for name in wanted if name in exact}


def _exactly(step: Step, values: Mapping[str, Any], results: tuple[Any, ...], chips: int) -> tuple[Any, ...]:
    """A Step in float32. A host op that draws random numbers is not run again: its results are what they are."""
    if step.on_host and torch.Tag.nondeterministic_seeded in aten_op(step.kernel).tags:  # type: ignore[attr-defined]
        return results
    widened = step if step.on_host else _widened(step)
    return run_step(widened, {n: values[n] for n in step.uses}, on_chips(unrounded, chips))


def _judge(step: Step, name: str, found: Any, isolated: Any, accumulated: Any, threshold: float) -> Comparison:
    found, isolated, accumulated = map(joined, (found, isolated, accumulated))
    overall = pcc_between(found, accumulated)
    return compare(
        found, isolated, name=name, threshold=threshold, scope="step", origin=step.origin, accumulated_pcc=overall
    )


def _widened(step: Step) -> Step:
    def widen(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(widen, arg))
        return Name("ttnn.float32") if isinstance(arg, Name) and arg.text in NARROW else arg

    return Step(step.kernel, tuple((k, widen(v)) for k, v in step.attrs), step.outputs, step.origin)


def joined(value: Any) -> Any:
    """All chips' pieces as one tensor."""
    return torch.stack(value) if isinstance(value, Pieces) else value


def _wide(value: Any) -> Any:
    if isinstance(value, Pieces):
        return Pieces(map(_wide, value))
    narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if narrow else value
