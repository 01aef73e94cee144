"""What a decision costs in error, measured: the ops it is about as the device computes them, all others in float32.

An output's error has two parts. Noise is 1 − PCC², the part of its squared length (about its mean) that no scale or
offset explains; noises of different ops add up where they are small and point anywhere. Drift is the logarithm of its
scale; drifts add up before they are squared, as LoFi makes every product a little too small. The search relies on both,
and verification tests it.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from proveout.cause.sides import Body, as_double, computing, output_names
from proveout.check.exact import draws, exactly, wide
from proveout.coding import digest, read_json
from proveout.compiler.program_passes.decide import decide, op_names
from proveout.devices.execute import fast, run_step
from proveout.folders import write_whole
from proveout.kernels.faithful import faithful
from proveout.kernels.row import MATRIX_UNIT
from proveout.kernels.table import kernels, kind_of, specs_of
from proveout.program import DEALLOCATE, Loaded, Program, Step
from proveout.types import DeviceSpec, Settings

Errors = tuple[float, ...]
"""By floating-point output."""
Off = tuple[float, float]
"""Noise and drift of one output."""
LEAST_SCALE = 1e-3
Numerics = Literal["fast", "faithful"]


def off(output: Any, wanted: Any) -> Off:
    """1 − PCC², from the residual itself: exact also where it is 1e-12; and the logarithm of the scale."""
    got, want = as_double(output), as_double(wanted)
    if not bool(torch.isfinite(got).all()):
        return 1.0, 0.0
    got, want = got - got.mean(), want - want.mean()
    length = float(got.square().sum())
    if length == 0 or float(want.square().sum()) == 0:
        return (0.0 if bool((as_double(output) == as_double(wanted)).all()) else 1.0), 0.0
    scale = float(got @ want) / float(want @ want)
    residual = got - want * scale
    return float(residual.square().sum()) / length, math.log(max(scale, LEAST_SCALE))


def multiplications(program: Program) -> float:
    """Floating-point operations of a Program's products and convolutions."""
    steps = [s for s in program.body if kind_of(s) in MATRIX_UNIT]
    rows = ((kernels()[s.kernel], s) for s in steps)
    return sum(row.work(specs_of(s, program.specs), tuple(program.specs[n] for n in s.outputs)).ops for row, s in rows)


@dataclass
class Graph:
    """One loaded Program with the inputs of one call, and everything that it computes in float32."""

    loaded: Loaded
    inputs: Sequence[Any]
    chip: DeviceSpec
    settings: Settings
    numerics: Numerics

    def __post_init__(self) -> None:
        self.program = self.loaded.program
        self.body = computing(self.program)
        self.outputs = output_names(self.program, self.body)
        self.names = op_names(self.program)
        raw = (*self.program.weights, *(c.name for c in self.program.constants))
        self.raw = {n: self.loaded.value(n) for n in raw}
        self.exact: dict[str, Any] = {n: wide(v) for n, v in self.raw.items()}
        with torch.no_grad():
            for step in self.program.setup:
                if step.kernel != DEALLOCATE:
                    self.exact.update(zip(step.outputs, map(wide, exactly(step, self.exact, (), self.program.chips))))
            self.values: dict[str, Any] = dict(zip(self.program.inputs, self.inputs))
            for index, step in enumerate(self.body.shared):
                drawn = self.body.run(self.loaded, index, self.values) if draws(step) else ()
                self.values.update(zip(step.outputs, self._float32(step, self.values, drawn)))

    def _float32(self, step: Step, values: Mapping[str, Any], drawn: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        operands = {n: wide(values[n]) if n in values else self.exact[n] for n in step.uses}
        return tuple(map(wide, exactly(step, operands, drawn, self.program.chips)))

    def whole(self) -> tuple[Off, ...]:
        """The Program as the device runs it."""
        meanings = self._meanings(self.program)
        values: dict[str, Any] = dict(zip(self.program.inputs, self.inputs))
        device = _Device(self.program, self.loaded.value, meanings)
        with torch.no_grad():
            for index, step in enumerate(self.body.shared):
                if draws(step):
                    values.update((n, self.values[n]) for n in step.outputs)
                else:
                    values.update(zip(step.outputs, self.body.run(device, index, values)))  # type: ignore[arg-type]
        return tuple(off(values[n], self.values[n]) for n in self.outputs)

    def error(self, ops: frozenset[str], settings: Settings) -> tuple[Off, ...]:
        """With the Steps of these names decided as the settings say and computed by the device, all others in float32:
        Steps that hand another format on are the device's, too."""
        program = decide(self.program, self.chip, settings) if settings.per_op else self.program
        body = computing(program)
        assert len(body.own) == len(self.body.own), "a decision changes no Step's place"
        setup = _Setup(program, self.raw, self.loaded)
        device = _Device(program, setup.value, self._meanings(program))
        changed: dict[str, Any] = {}
        with torch.no_grad():
            for index, step in enumerate(self.body.shared):
                by_device = self.names.get(self.body.own[index].outputs[0], "") in ops or self._narrowed(
                    body.own[index], program
                )
                if draws(step) or not (by_device or any(n in changed for n in step.uses)):
                    continue
                values = {n: changed[n] if n in changed else self.values[n] for n in step.uses if n in self.values}
                if by_device:
                    results = body.run(device, index, values)  # type: ignore[arg-type]
                else:
                    results = self._float32(step, values)
                changed.update(zip(step.outputs, results))
        return tuple(off(changed.get(n, self.values[n]), self.values[n]) for n in self.outputs)

    def _narrowed(self, step: Step, program: Program) -> bool:
        return not step.on_host and any(program.specs[n].dtype != self.program.specs[n].dtype for n in step.outputs)

    def _meanings(self, program: Program) -> Any:
        if self.numerics == "fast":
            return fast(program)
        return partial(faithful, specs=program.specs, chip=self.chip, fidelity=self.settings.math_fidelity)


@dataclass(frozen=True)
class _Device:
    """What `Body.run` needs of a loaded Program, with only the weights that are asked for."""

    program: Program
    value: Any
    meanings: Any

    def run_step(self, step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return run_step(step, values, self.meanings)


class _Setup:
    """Setup results of a Program, made when they are asked for; those of the loaded one are there already."""

    def __init__(self, program: Program, raw: Mapping[str, Any], loaded: Loaded) -> None:
        self.program, self.raw, self.loaded = program, raw, loaded
        self.makers = {n: s for s in program.setup for n in s.outputs}
        before = {n: s for s in loaded.program.setup for n in s.outputs}
        self.same = {n for n, s in self.makers.items() if before.get(n) == s}
        self.made: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        if name in self.raw:
            return self.raw[name]
        if name in self.same:
            with contextlib.suppress(KeyError):  # what only setup itself read is not kept
                return self.loaded.value(name)
        if name not in self.made:
            step = self.makers[name]
            operands = {n: self.value(n) for n in step.uses}
            self.made.update(zip(step.outputs, run_step(step, operands, fast(self.program))))
        return self.made[name]


__all__ = ["Body", "Errors", "Graph", "Numerics", "Off", "multiplications", "off"]


class Measurements:
    """Measurements in a file: one that was interrupted goes on where it stopped."""

    def __init__(self, path: Path | None, seal: str) -> None:
        self.path, self.seal = path, seal
        self.values: dict[str, list[float]] = {}
        self.seconds: dict[str, float] = {}
        if path is not None and path.is_file():
            try:
                document = read_json(path)
                if document.get("seal") == seal:
                    self.values = {str(k): [float(x) for x in v] for k, v in document["values"].items()}
                    self.seconds = {str(k): float(s) for k, s in document.get("seconds", {}).items()}
            except (OSError, ValueError, TypeError, AttributeError, KeyError):
                self.values, self.seconds = {}, {}

    def get(self, key: object, measure: Callable[[], Sequence[float]]) -> tuple[float, ...]:
        name = digest(key)
        if name not in self.values:
            began = time.monotonic()
            self.values[name] = list(measure())
            self.seconds[name] = round(time.monotonic() - began, 3)
            if self.path is not None:
                document = {"seal": self.seal, "values": self.values, "seconds": self.seconds}
                write_whole(self.path, json.dumps(document, sort_keys=True))
        return tuple(self.values[name])

    def seconds_of(self, key: object) -> float:
        """How long it took, in this run or in the one that kept it."""
        return self.seconds.get(digest(key), 0.0)
