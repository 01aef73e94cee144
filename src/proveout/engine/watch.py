"""Notices that a weight changed, however it was written to, as cheaply as is sure."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch

SMALL = 4096
"""Up to this many bytes the whole content is kept and compared."""
BLOCK = 1024
"""Larger tensors are summed in blocks of this many 8-byte words: any single write changes one sum."""


@dataclass(frozen=True)
class Seen:
    """What a weight looked like when its copies were made."""

    pointer: int
    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    version: int
    content: torch.Tensor | None
    """None where the device reads the live storage: a write in place then needs no copy to be remade."""

    def still(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is the same, by address, shape, version and, for writes that bypass versions, content."""
        if (
            tensor.data_ptr() != self.pointer
            or tensor.shape != self.shape
            or tensor.stride() != self.stride
            or tensor.dtype != self.dtype
        ):
            return False
        if self.content is None:
            return True
        return version_of(tensor) == self.version and torch.equal(content_of(tensor), self.content)


def look(tensor: torch.Tensor, live: bool) -> Seen:
    content = None if live else content_of(tensor)
    return Seen(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, version_of(tensor), content)


def version_of(tensor: torch.Tensor) -> int:
    """The autograd version; inference tensors have none and are judged by content alone."""
    return -1 if tensor.is_inference() else tensor._version


def content_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a small tensor, or the block sums of a large one."""
    with torch.no_grad():
        data = tensor.detach()
        if not data.is_contiguous():
            data = data.contiguous() if not _dense(data) else data.permute(_memory_order(data))
        raw = data.reshape(-1).view(torch.uint8) if data.numel() else data.new_empty(0, dtype=torch.uint8)
        if raw.numel() <= SMALL:
            return raw.clone()
        whole = raw.numel() // (8 * BLOCK) * 8 * BLOCK
        words = raw[:whole]
        if words.storage_offset() % 8 or words.data_ptr() % 8:
            words = words.clone()
        sums = words.view(torch.int64).view(-1, BLOCK).sum(1)
        return torch.cat([sums.view(torch.uint8), raw[whole:]])


def _dense(tensor: torch.Tensor) -> bool:
    return tensor.permute(_memory_order(tensor)).is_contiguous()


def _memory_order(tensor: torch.Tensor) -> list[int]:
    return sorted(range(tensor.dim()), key=lambda d: tensor.stride(d), reverse=True)


def when_gone(tensor: torch.Tensor, then: Callable[[], None]) -> weakref.ref[torch.Tensor]:
    """Calls back when the parameter itself, not only its storage, is dropped."""
    return weakref.ref(tensor, lambda _: then())
