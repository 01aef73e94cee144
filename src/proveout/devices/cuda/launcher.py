"""Starts Triton kernels: the first time for a form of arguments through Triton, which compiles; then by the compiled
kernel's own launcher, which costs a tenth of that."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import triton

Tensor = torch.Tensor
PDL = True
"""Programmatic dependent launch: a kernel is started while the one before it still runs, and waits where it reads."""


def interpreted() -> bool:
    """Whether Triton runs kernels in Python, on the CPU: then there is nothing to wait for."""
    return bool(triton.knobs.runtime.interpret)


@functools.cache
def scratch(device: torch.device) -> tuple[Tensor, Tensor]:
    """Where parts of sums wait for the last one, and how many came; kernels follow each other, so one is enough."""
    parts = torch.empty(1 << 23, dtype=torch.float32, device=device)
    return parts, torch.zeros(1 << 14, dtype=torch.int32, device=device)


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """How many blocks a GPU works on at least; a few in the interpreter."""
    return 3 if interpreted() else torch.cuda.get_device_properties(device).multi_processor_count


_compiled: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}
"""By what Triton specialises a kernel on: the compiled kernel, and its arguments after the tensors and numbers."""


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    arguments: Sequence[Any],
    constants: Mapping[str, Any],
    numbers: Mapping[str, int],
    tiles: tuple[str, ...] = (),
) -> None:
    """Run a kernel over a grid. `arguments` are its tensors, tensor descriptors and numbers in order, `constants` its
    constexprs but for `PDL` and those of the candidate's `numbers` that `tiles` names."""
    if interpreted():
        kernel[grid](*arguments, **constants, **{name: numbers[name] for name in tiles}, PDL=False)
        return
    kinds: list[Any] = []
    passed: list[Any] = []
    place = 0
    for value in arguments:
        if isinstance(value, Tensor):
            address = value.data_ptr()
            kinds.append((value.dtype, address % 16 == 0))
            passed.append(address)
            place = value.device.index
        else:
            kinds.append(value if isinstance(value, (int, float)) else type(value))
            passed.append(value)
    key = (kernel, place, *kinds, *constants.values(), *numbers.values())
    known = _compiled.get(key)
    if known is None:
        every = {**constants, **{name: numbers[name] for name in tiles}, "PDL": PDL}
        options = {"num_warps": numbers["warps"], "num_stages": numbers["stages"], "launch_pdl": PDL}
        compiled = kernel[grid](*arguments, **every, **options)
        _compiled[key] = compiled, tuple(every[name] for name in kernel.arg_names[len(arguments) :])
        return
    compiled, rest = known
    stream = torch._C._cuda_getCurrentRawStream(place)
    x, y, z = (*grid, 1, 1)[:3]
    compiled.run(x, y, z, stream, compiled.function, compiled.packed_metadata, None, None, None, *passed, *rest)
