"""Notices which weights changed since their copies were made, however they were written to.

A write through autograd changes the tensor's version. Writes that bypass it (`p.data.mul_()`, `.numpy()`) are found by
content: exactly at the next call while a model's watched weights total up to EXACT_BYTES; beyond that each call looks
at a part, so that watching costs a few milliseconds whatever the model's size, and a whole-tensor write is still found
at once. Weights whose live storage the device reads need no such look.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch

EXACT_BYTES = 16 << 20
BLOCK = 512
"""Content is summed in blocks of this many 8-byte words (any single write changes one sum); what fills no block is kept
as it is."""


@dataclass(frozen=True)
class WeightState:
    """What a weight looked like. `words` and `rest` are its live bytes; `sums` and `bytes` what they were."""

    identity: tuple[int, torch.Size, tuple[int, ...], torch.dtype]
    version: int
    written: int
    words: torch.Tensor
    rest: torch.Tensor
    sums: torch.Tensor
    bytes: torch.Tensor


class WeightWatch:
    """The weights of one loaded Program."""

    def __init__(self, gone: Callable[[str], None]) -> None:
        self._gone = gone
        """Called with the name of a weight that is no more."""
        self._seen: dict[str, WeightState] = {}
        self._copied: list[str] = []
        self._alive: dict[str, weakref.ref[torch.Tensor]] = {}
        self._part, self._parts = 0, 1

    def changed(self, weights: Mapping[str, torch.Tensor]) -> list[str]:
        """The names of weights that are not as they were when `note` last saw them."""
        different = [name for name, tensor in weights.items() if not self._same_tensor(name, tensor)]
        if different:
            return different
        self._part = (self._part + 1) % self._parts
        if self._copied and not self._content_equal(self._copied):
            return [name for name in self._copied if not self._content_equal([name])]
        return []

    def forget(self, names: Iterable[str]) -> None:
        """These are about to be replaced: the old ones may go without notice."""
        for name in names:
            self._alive.pop(name, None)
            self._seen.pop(name, None)
            self._copied = [n for n in self._copied if n != name]

    def note(self, name: str, tensor: torch.Tensor, live: bool, coming: int = 0) -> None:
        """Remember a weight as it is now; `live` where the device reads its storage and no copy can be stale. `coming`
        versions will be counted before the next look without anybody having written."""
        self._alive[name] = weakref.ref(tensor, lambda _: self._gone(name))
        if not live and not _is_dense(tensor):
            self._seen.pop(name, None)  # its bytes cannot be watched in place: it counts as changed at every call
            return
        words, rest = _live_bytes(tensor.data) if not live else _live_bytes(tensor.new_empty(0))
        sums = words.sum(1)
        version = -1 if live or tensor.is_inference() else tensor._version + coming
        written = -1 if live else _written.get(_storage(tensor), 0)
        self._seen[name] = WeightState(_identity(tensor), version, written, words, rest, sums, rest.clone())
        self._copied = [n for n in self._copied if n != name] + ([] if live else [name])
        self._parts = 1 + sum(self._seen[n].words.numel() * 8 for n in self._copied) // EXACT_BYTES

    def _same_tensor(self, name: str, tensor: torch.Tensor) -> bool:
        seen = self._seen.get(name)
        if seen is None or seen.identity != _identity(tensor):
            return False
        if seen.written not in (-1, _written.get(_storage(tensor), 0)):
            return False
        return seen.version == -1 or seen.version == version_of(tensor)

    def _content_equal(self, names: list[str]) -> bool:
        part, parts = self._part, self._parts
        seen = [self._seen[n] for n in names]
        rest = torch.equal(torch.cat([s.rest for s in seen]), torch.cat([s.bytes for s in seen]))
        sums = torch.cat([s.words[part::parts].sum(1) for s in seen if len(s.words)] or [torch.empty(0)])
        wanted = torch.cat([s.sums[part::parts] for s in seen if len(s.words)] or [torch.empty(0)])
        return rest and torch.equal(sums, wanted)


_tickets = itertools.count(1)
_written: dict[int, int] = {}
"""The last of our own writes to each storage: inference tensors have no version that would tell of it."""


def wrote(tensor: torch.Tensor) -> None:
    """Every copy of this tensor is stale now, except one that is noted after this."""
    _written[_storage(tensor)] = next(_tickets)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def version_of(tensor: torch.Tensor) -> int:
    """The autograd version; inference tensors have none and are judged by content alone."""
    return -1 if tensor.is_inference() else tensor._version


def _identity(tensor: torch.Tensor) -> tuple[int, torch.Size, tuple[int, ...], torch.dtype]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _memory_order(tensor: torch.Tensor) -> list[int]:
    return sorted(range(tensor.dim()), key=tensor.stride, reverse=True)


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.permute(_memory_order(tensor)).is_contiguous()


def _live_bytes(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A dense tensor's bytes in memory order, as views: whole blocks of 8-byte words, and the rest."""
    if not tensor.numel():
        return torch.empty(0, BLOCK, dtype=torch.int64), torch.empty(0, dtype=torch.uint8)
    raw = tensor.permute(_memory_order(tensor)).reshape(-1).view(torch.uint8)
    whole = raw.numel() // (8 * BLOCK) * 8 * BLOCK if raw.data_ptr() % 8 == 0 else 0
    return raw[:whole].view(torch.int64).view(-1, BLOCK), raw[whole:]
