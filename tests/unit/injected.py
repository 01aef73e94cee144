"""Faults put into kernels, one of five classes each, and processes of their own for files that meet one."""

from __future__ import annotations

import multiprocessing
import runpy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from proveout.errors import DeviceError, OutOfMemory
from proveout.kernels.table import kernels

CLASSES = ("crash", "refusal", "memory", "nan", "pcc")
_ran: list[str] = []
"""Of the kernels that must run one after another for a fault, those that have in this call."""


def inject(chain: Sequence[str], kind: str, least: int = 0) -> None:
    """Let the last kernel fail in a call where the others ran before it, in this order, and its first operand has at
    least so many elements."""
    for kernel in chain:
        _inject(kernel, chain, kind, least)


def _inject(kernel: str, chain: Sequence[str], kind: str, least: int) -> None:
    row = kernels()[kernel]
    original = row.meaning

    def meaning(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if result.is_meta:
            return result
        if kernel != chain[-1]:
            _ran.extend([kernel] if len(_ran) < len(chain) - 1 and kernel == chain[len(_ran)] else [])
            return result
        first = next(a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor))
        if first.numel() < least or len(_ran) < len(chain) - 1:
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


def begin() -> None:
    """A new call: nothing ran yet."""
    _ran.clear()


def restore() -> None:
    begin()
    kernels.cache_clear()


def preamble(chain: Sequence[str], kind: str, least: int) -> str:
    """What a file says to be under the same fault in a process of its own."""
    return f"import injected\n\ninjected.inject({tuple(chain)!r}, {kind!r}, {least})"


def exit_code(path: Path) -> int | None:
    """Run a file in a new process that has imported torch and the package and nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "proveout.reduce.judge"])
    process = context.Process(target=_run, args=(str(path),))
    process.start()
    process.join(120)
    return process.exitcode


def _run(path: str) -> None:
    runpy.run_path(path, run_name="__main__")
