"""Stage 2: what eager PyTorch gives for seeded inputs, saved; and whether it gives the same again."""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import save_file

from proveout.bringup.data import ReferenceData
from proveout.bringup.stage import Files, StageResult
from proveout.bringup.subject import Subject
from proveout.check.outputs import leaves
from proveout.subject import Call
from proveout.words import counted

HELD_OUT = 2
"""Sets of inputs beside the script's own, on which later stages are held to account."""


def run(subject: Subject, files: Files) -> StageResult:
    calls = [subject.call, *subject.held_out(HELD_OUT)]
    differing = []
    saved = 0
    for number, call in enumerate(calls):
        first, again = subject.eager(call), subject.eager(call)
        differing += [f"{name} of inputs {number}" for name in _different(first, again)]
        label = "inputs" if number == 0 else f"held-out-{number}"
        saved += _save(call, files, f"reference/{label}.safetensors")
        _save(first, files, f"reference/{label}-outputs.safetensors")
    names = [name for name, _ in leaves(subject.eager(subject.call))]
    headline = f"{counted(len(names), 'output')} of {counted(len(calls), 'set')} of inputs saved"
    if differing:
        step = "Seed what draws random numbers, or switch dropout off with model.eval(); PCC means little until then."
        note = f"eager itself differs from call to call: {', '.join(differing[:4])}"
        return StageResult(f"{headline}; not deterministic", (note,), step, attention=True, data=ReferenceData(False))
    seed = subject.bringup.settings.seed
    findings = (f"two eager calls agree bit by bit; inputs 0 are the script's, the others drawn from seed {seed} on",)
    return StageResult(f"{headline}; deterministic", findings, data=ReferenceData(True, tuple(names)))


def _different(one: Any, other: Any) -> list[str]:
    second = dict(leaves(other))
    return [n for n, value in leaves(one) if isinstance(value, torch.Tensor) and not _equal(value, second.get(n))]


def _equal(one: torch.Tensor, other: Any) -> bool:
    if not isinstance(other, torch.Tensor) or one.shape != other.shape:
        return False
    return bool(torch.equal(one, other) or torch.equal(one.nan_to_num(nan=7.0), other.nan_to_num(nan=7.0)))


def _save(values: Call | Any, files: Files, name: str) -> int:
    """Tensors by their place in the structure; safetensors knows no complex numbers, which are saved as pairs."""
    tensors = {
        name: (torch.view_as_real(value) if value.is_complex() else value).detach().contiguous().clone()
        for name, value in leaves(values)
        if isinstance(value, torch.Tensor)
    }
    save_file(tensors, files.path(name))
    return len(tensors)
