"""Every Step against its float32 meaning: on the device's own operands (isolated), and from the start (accumulated)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from proveout.check.compare import compare
from proveout.devices.execute import PURE_LAYOUT, run_step
from proveout.engine.compiled import Compiled
from proveout.engine.graph import Variant
from proveout.program import DEALLOCATE, Arg, Loaded, Name, Program, Step
from proveout.types import Comparison

NARROW = {f"ttnn.{d}" for d in ("bfloat16", "bfloat8_b", "bfloat4_b")}


def compare_steps(
    compiled: Compiled, args: Sequence[Any], kwargs: dict[str, Any], threshold: float
) -> list[Comparison]:
    """Run a compiled model once more and replay each of its graphs Step by Step."""
    runs: list[tuple[Variant, Loaded, list[Any]]] = []

    def note(variant: Variant, arguments: Sequence[Any]) -> None:
        inputs = [arguments[i] for i in variant.compiled.input_positions]
        kept = [t.clone() if isinstance(t, torch.Tensor) else t for t in inputs]
        runs.append((variant, variant.ready(arguments), kept))

    with compiled.watching(note):
        compiled(*args, **kwargs)
    return [c for _, loaded, inputs in runs for c in replay(loaded, inputs, threshold)]


def replay(loaded: Loaded, inputs: Sequence[Any], threshold: float) -> list[Comparison]:
    """The body twice, side by side: as the device computes it, and in float32."""
    program = loaded.program
    device: dict[str, Any] = dict(zip(program.inputs, inputs))
    for name in _stable(program):
        device[name] = loaded.value(name)
    exact = {name: _wide(value) for name, value in device.items()}
    out = []
    with torch.no_grad():
        for step in program.body:
            if step.kernel == DEALLOCATE:
                for name in step.uses:
                    device.pop(name), exact.pop(name)
                continue
            results = run_step(step, device)
            isolated = results
            if not step.on_host:
                isolated = run_step(_widened(step), {n: _wide(device[n]) for n in step.uses})
            accumulated = run_step(_widened(step), {n: exact[n] for n in step.uses}) if not step.on_host else results
            for index, name in enumerate(step.outputs):
                device[name], exact[name] = results[index], _wide(accumulated[index])
                if not step.on_host and not step.is_transfer and step.kernel not in PURE_LAYOUT:
                    out.append(_judge(step, name, results[index], isolated[index], accumulated[index], threshold))
    return out


def _judge(step: Step, name: str, found: Any, isolated: Any, accumulated: Any, threshold: float) -> Comparison:
    overall = compare(found, accumulated, name=name, threshold=threshold, scope="step").pcc
    return compare(
        found, isolated, name=name, threshold=threshold, scope="step", origin=step.origin, accumulated_pcc=overall
    )


def _widened(step: Step) -> Step:
    def widen(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(widen, arg))
        return Name("ttnn.float32") if isinstance(arg, Name) and arg.text in NARROW else arg

    return Step(step.kernel, tuple((k, widen(v)) for k, v in step.attrs), step.outputs, step.origin)


def _wide(value: Any) -> Any:
    narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if narrow else value


def _stable(program: Program) -> list[str]:
    made = [n for s in program.setup for n in s.outputs]
    return [*program.weights, *(c.name for c in program.constants), *made]
