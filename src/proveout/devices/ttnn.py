"""Real ttnn: every Step is the call that it names, on silicon or on ttnn's own mock chip.

On the mock, ttnn validates calls, builds programs and allocates buffers for real, but computes nothing: what is read
back is zeros. On silicon a run's time is measured like any other function's.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from proveout.chip.specs import CHIPS
from proveout.devices.execute import aten_op, check_chips
from proveout.errors import DeviceError
from proveout.kernels.accept import why_not
from proveout.kernels.table import constant_tensor, kernels
from proveout.program import DEALLOCATE, Arg, Construct, Name, Program, Ref, Result, Step
from proveout.types import DeviceSpec, Settings

CHIP_OF_ARCH = {"wormhole_b0": "n150", "blackhole": "p150"}


class Ttnn:
    """One chip, opened by ttnn itself."""

    def __init__(self, mock: str | None = None) -> None:
        self.ttnn = importlib.import_module("ttnn")
        self.handle = self.ttnn.open_device(device_id=0, l1_small_size=CHIPS[mock or "n150"].l1_small)
        chip = mock or CHIP_OF_ARCH.get(str(self.ttnn.get_arch_name()), "n150")
        self.name = f"ttnn:mock-{mock}" if mock else "ttnn"
        grid = self.handle.compute_with_storage_grid_size()
        self.spec: DeviceSpec = replace(CHIPS[chip], grid=(grid.x, grid.y))

    def load(self, program: Program, settings: Settings) -> OnTtnn:
        check_chips(program, self.name, 1)
        return OnTtnn(program, self)

    def close(self) -> None:
        self.ttnn.close_device(self.handle)


class OnTtnn:
    """A Program on a chip: setup results stay there, and are made again when their weights change."""

    def __init__(self, program: Program, device: Ttnn) -> None:
        self.program = program
        self._device = device
        self._scope = {"ttnn": device.ttnn, "torch": torch, "device": device.handle}
        self._values: dict[str, Any] = {c.name: constant_tensor(c, program.specs[c.name]) for c in program.constants}
        self._fresh = True
        self._kept: set[str] = set()
        """Weights that were given as what setup makes of them."""

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        changed = set(weights) if not self._fresh else set(self.program.weights)
        self._values.update({name: tensor.data for name, tensor in weights.items()})
        self._kept -= weights.keys()
        if all(name in self._values or name in self._kept for name in self.program.weights):
            self._run_setup(changed)

    def _run_setup(self, changed: set[str]) -> None:
        touched = set(changed)
        for step in self.program.setup:
            if (self._fresh or touched.intersection(step.uses)) and self._kept.isdisjoint(step.uses):
                touched.update(step.outputs)
                self._values.update(zip(step.outputs, self.run_step(step, self._values)))
        self._fresh = False

    def drop_weights(self, names: Iterable[str]) -> None:
        for name in names:
            self._kept.discard(name)
            for derived in (name, *self._made_of(name)):
                self._values.pop(derived, None)

    def _made_of(self, weight: str) -> list[str]:
        """What setup makes of a weight."""
        derived = {weight}
        for step in self.program.setup:
            if derived.intersection(step.uses):
                derived.update(step.outputs)
        return sorted(derived - {weight})

    def holds_live(self, weight: str) -> bool:
        return False

    def value(self, name: str) -> Any:
        return self._values[name]

    def run(self, inputs: Sequence[Any]) -> Result:
        if self._fresh:
            self._run_setup(set())
        values = {**self._values, **dict(zip(self.program.inputs, inputs))}
        with torch.no_grad():
            for step in self.program.body:
                values.update(zip(step.outputs, self.run_step(step, values)))
        outputs = [values[o.name] if isinstance(o, Ref) else o for o in self.program.outputs]
        return Result(outputs, self.program.num_transfers, state=tuple(values[n] for _, n in self.program.state))

    def keep(self, state: Mapping[str, Any]) -> None:
        for weight, value in state.items():
            self._values.update(dict.fromkeys(self._made_of(weight), value))
            self._kept.add(weight)

    def run_step(self, step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
        attrs = {key: self._concrete(arg, values) for key, arg in step.attrs}
        if step.kernel == DEALLOCATE:
            self._device.ttnn.deallocate(attrs["tensor"])
            return ()
        function = aten_op(step.kernel) if step.on_host else self._function(step.kernel)
        result = function(**attrs)
        if isinstance(result, (tuple, list)):
            return tuple(f for f in result if f is not None)
        return (result,)

    def _function(self, kernel: str) -> Any:
        if kernel not in kernels():
            raise DeviceError(f"there is no kernel {kernel!r}.")
        return functools.reduce(getattr, kernel.split(".")[1:], self._device.ttnn)

    def _concrete(self, arg: Arg, values: Mapping[str, Any]) -> Any:
        if isinstance(arg, Ref):
            return values[arg.name]
        if isinstance(arg, tuple):
            return [self._concrete(a, values) for a in arg]
        return made(arg, self._scope)


def made(arg: Arg, scope: Mapping[str, Any]) -> Any:
    """The object that an argument without values stands for: a constant such as `ttnn.bfloat16`, or a config, which is
    made here. Nothing else runs."""
    why = why_not(arg)
    if why:
        raise DeviceError(f"an argument {why}.")

    def value(arg: Arg) -> Any:
        if isinstance(arg, Name):
            return named(arg.text)
        if isinstance(arg, Construct):
            by_name = {name: value(a) for name, a in arg.by_name.items()}
            return named(arg.name)(*map(value, arg.by_place), **by_name)
        return [value(a) for a in arg] if isinstance(arg, tuple) else arg

    def named(text: str) -> Any:
        first, *rest = text.split(".")
        return functools.reduce(getattr, rest, scope[first])

    return value(arg)
