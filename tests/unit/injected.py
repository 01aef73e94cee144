"""Faults put into kernels, one of five classes each; importing this with INJECTED set puts one in."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import torch

from proveout.errors import DeviceError, OutOfMemory
from proveout.kernels.table import kernels

CLASSES = ("crash", "refusal", "memory", "nan", "pcc")


def inject(kernel: str, kind: str, least: int = 0) -> None:
    """Let a kernel fail where its first operand has at least so many elements."""
    row = kernels()[kernel]
    original = row.meaning

    def meaning(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        first = next(a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor))
        if result.is_meta or first.numel() < least:
            return result
        if kind == "crash":
            raise IndexError(f"{kernel} reads beyond its operand")
        if kind == "refusal":
            raise DeviceError(f"{kernel} is not served here. Use another.")
        if kind == "memory":
            raise OutOfMemory(f"{kernel} has no room. Make it smaller.")
        if kind == "nan":
            return torch.full_like(result, float("nan"))
        return torch.roll(result.flatten(), 1).reshape(result.shape)

    kernels()[kernel] = replace(row, meaning=meaning)


def restore() -> None:
    kernels.cache_clear()


def preamble(kernel: str, kind: str, least: int) -> str:
    """What a file says to be under the same fault in a process of its own."""
    return f"import injected\n\ninjected.inject({kernel!r}, {kind!r}, {least})"


if os.environ.get("INJECTED"):
    inject(*os.environ["INJECTED"].split(","))
