"""Records hand-written ttnn of a whole process, for `proveout perf -c`: where the environment asks for it, and nowhere
else.

What is sent to the chip counts as its weights, as in a profile of the chip, which knows device operations only. No
numbers are kept.
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Sequence

import torch

from proveout import recording as folder
from proveout.program import FROM_TORCH, TO_DEVICE, Arg
from proveout.recording import Recorded
from proveout.ttnn import recording
from proveout.ttnn.recording import Key, Recording, Value
from proveout.types import TensorSpec

_NUMBERS = itertools.count()
_running: list[Ambient] = []


class Ambient(Recording):
    """All calls since the last one was saved."""

    def call(
        self,
        kernel: str,
        attrs: Sequence[tuple[str, Arg]],
        reads: Sequence[Value],
        writes: Sequence[tuple[Key, TensorSpec]],
        source: str,
    ) -> None:
        before = len(self._body)
        super().call(kernel, attrs, reads, writes, source)
        if kernel in (FROM_TORCH, TO_DEVICE):
            self._setup += self._body[before:]
            del self._body[before:]

    def fetched(self, tensor: torch.Tensor) -> None:
        self.outputs[self._body[-1].outputs[0]] = torch.empty(0)

    def _is_input(self, key: Key) -> bool:
        return False

    def _kept_copy(self, data: torch.Tensor) -> torch.Tensor:
        return torch.empty(0)

    def _name(self, key: Key, spec: TensorSpec, data: torch.Tensor) -> str:
        if isinstance(key, int):  # of a torch tensor that may be gone when another has its id
            self._names.pop(key, None)
        return super()._name(key, spec, data)

    def holds_calls(self) -> bool:
        return any(step.kernel.startswith("ttnn.") and step.outputs for step in self._body)


def start() -> None:
    """Begin, where `PROVEOUT_RECORD` names a folder."""
    if folder.wanted() is not None and not _running:
        _running.append(Ambient("hand-written"))
        recording.listen(_running[0])
        atexit.register(save)


def save() -> None:
    """Write what was called so far as a Program, and begin anew."""
    where = folder.wanted()
    if where is None or not _running:
        return
    ran = _running.pop()
    recording.leave(ran)
    if ran.holds_calls():
        ran.finish()
        target = where / f"process{os.getpid()}-calls{next(_NUMBERS)}"
        folder.save(Recorded(f"sim:{ran.chip.name}", ran.chip, ran.settings, ran.program), target)
        folder.note_call(target)
    _running.append(Ambient("hand-written"))
    recording.listen(_running[0])
