"""A Program loaded on a device that computes with torch: setup results kept, and remade when their weights change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from proveout.devices.execute import Meanings, Transfers, body_function, fast, late_casts, on_chips, run_step
from proveout.kernels.pieces import pieces_of
from proveout.kernels.table import constant_tensor, torch_dtype
from proveout.program import DEALLOCATE, Program, Ref, Result, Step

Body = Callable[..., list[Any]]


class Resident:
    """Implements `Loaded`. `wrap` may replace the body function by a faster one with the same meaning; `meanings` say
    what each Step computes on one chip (default: `fast`); `place` is where tensors lie, if not where they come from."""

    def __init__(
        self,
        program: Program,
        modelled_ns: int | None = None,
        wrap: Callable[[Body, list[Any]], Body] | None = None,
        meanings: Meanings | None = None,
        place: torch.device | None = None,
    ) -> None:
        self.program = program
        self.place = place
        self._moved: set[str] = set()
        self._kept: set[str] = set()
        """Weights that were given as what setup makes of them."""
        self._meanings = on_chips(meanings or fast(program), program.chips)
        self.modelled_ns = modelled_ns
        self.transfers = Transfers()
        self._wrap = wrap
        self._values: dict[str, Any] = {
            c.name: constant_tensor(c, program.specs[c.name]).to(place) for c in program.constants
        }
        self._depends = _dependencies(program)
        self._late = late_casts(program)
        self._filters = {s.attr("weight_tensor") for s in program.body if s.kernel == "ttnn.conv2d"}
        self._stable = program.resident
        self._tensors: list[Any] = []
        self._live: dict[str, bool] = {}
        self._body = body_function(program, self._stable, self.transfers, self._meanings)
        self._wrapped: Body | None = None
        self._run_setup(set(program.weights) if program.weights else {""})

    def set_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        # `.data` shares the storage but not the autograd graph, so it does not keep the parameter itself alive.
        self._values.update({name: tensor.data.to(self.place) for name, tensor in weights.items()})
        self._kept -= weights.keys()
        self._moved = {n for n in self._moved if n not in weights}
        self._moved |= {n for n, tensor in weights.items() if self.place is not None and tensor.device != self.place}
        self._run_setup(set(weights))

    def drop_weights(self, names: Iterable[str]) -> None:
        gone = set(names)
        self._kept -= gone
        for step, depends in zip(self.program.setup, self._depends):
            if depends & gone:
                gone.update(step.outputs)
        self._values = {n: v for n, v in self._values.items() if n not in gone}
        self._tensors = []

    def _run_setup(self, changed: set[str]) -> None:
        """Make what the body reads of these weights, and keep nothing else: results on the way go after their last
        use, so a large model is there once and not once for every Step of its setup."""
        if any(w not in self._values and w not in self._kept for w in self.program.weights):
            return
        due = self._due(changed)
        last = {name: index for index, step in enumerate(due) for name in (*step.uses, *step.outputs)}
        fleeting = last.keys() - {*self._stable, *self.program.weights, *(c.name for c in self.program.constants)}
        with torch.no_grad():
            for index, step in enumerate(due):
                if step.outputs[0] in self._late:
                    self._values[step.outputs[0]] = self._values[step.uses[0]]
                else:
                    self._values.update(zip(step.outputs, self.run_step(step, self._values)))
                for name in (*step.uses, *step.outputs):
                    if last[name] == index and name in fleeting:
                        self._values.pop(name, None)
        self._live = {w: self._reads_live(w) for w in self.program.weights}
        self._arrange_filters()
        self._tensors = [self._values[n] for n in self._stable]

    def _due(self, changed: set[str]) -> list[Step]:
        """The setup Steps to run, in order: those on whose results something depends that the body reads and that is
        not there or made of a weight that changed."""
        due, needed = [], set(self._stable)
        for step, depends in zip(reversed(self.program.setup), reversed(self._depends)):
            missing = any(n in needed and (depends & changed or n not in self._values) for n in step.outputs)
            if step.kernel != DEALLOCATE and missing:
                due.append(step)
                needed.update(step.uses)
        return due[::-1]

    def _arrange_filters(self) -> None:
        """Copies of filters go channels-last, as activations lie: at 7 x 7 a convolution takes half the time."""
        for step, depends in zip(self.program.setup, self._depends):
            if not any(self._live[weight] for weight in depends):
                for name in step.outputs:
                    value = self._values.get(name)
                    if Ref(name) in self._filters and isinstance(value, torch.Tensor) and value.dim() == 4:
                        self._values[name] = value.contiguous(memory_format=torch.channels_last)

    def _reads_live(self, weight: str) -> bool:
        if weight in self._moved or weight in self._kept:
            return False
        storage = self._values[weight].untyped_storage().data_ptr()
        results = (n for s, d in zip(self.program.setup, self._depends) if weight in d for n in s.outputs)
        kept = (self._values[n] for n in results if n in self._values)
        return all(piece.untyped_storage().data_ptr() == storage for value in kept for piece in pieces_of(value))

    def holds_live(self, weight: str) -> bool:
        return self._live.get(weight, False)

    def run(self, inputs: Sequence[Any]) -> Result:
        before = self.transfers.count
        with torch.no_grad():
            if self._wrap is not None:
                if self._wrapped is None:
                    self._wrapped = self._wrap(self._body, [*inputs, *self._tensors])
                outputs = self._wrapped(*inputs, *self._tensors)
            else:
                outputs = self._body(*inputs, *self._tensors)
        num_outputs = len(self.program.outputs)
        left = tuple(outputs[num_outputs:])
        return Result(outputs[:num_outputs], self.transfers.count - before, self.modelled_ns, left)

    def keep(self, state: Mapping[str, Any]) -> None:
        for weight, value in state.items():
            results = (s.outputs for s, d in zip(self.program.setup, self._depends) if weight in d)
            self._values.update((name, value) for names in results for name in names if name in self._stable)
        self._kept |= state.keys()
        self._live.update(dict.fromkeys(state, False))
        if self._tensors:
            self._tensors = [self._values[n] for n in self._stable]
        else:
            self._run_setup(set())

    def run_step(self, step: Step, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return run_step(step, values, self._meanings)

    def value(self, name: str) -> Any:
        """A weight, a constant or what the body reads of setup, for replays that check Step by Step."""
        value = self._values[name]
        return value.to(torch_dtype(self.program.specs[name].dtype)) if name in self._late else value


def _dependencies(program: Program) -> list[frozenset[str]]:
    """For each setup Step, the weights it depends on."""
    roots: dict[str, frozenset[str]] = {w: frozenset({w}) for w in program.weights}
    out = []
    for step in program.setup:
        depends = frozenset().union(*(roots.get(n, frozenset()) for n in step.uses))
        roots.update(dict.fromkeys(step.outputs, depends))
        out.append(depends)
    return out
