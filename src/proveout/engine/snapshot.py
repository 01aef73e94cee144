"""Keeps what a call gave each Program and what came out, so that it can be run again elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from proveout.engine.compiled import Compiled
from proveout.engine.graph import Variant
from proveout.program import Ref

TENSORS = "tensors.safetensors"


def save_calls(compiled: Compiled, args: Sequence[Any], kwargs: Mapping[str, Any], folder: Path) -> list[Path]:
    """Call a compiled model once; leave a folder for each Program that ran: itself, its tensors, its outputs."""
    folders: list[Path] = []

    def note(variant: Variant, arguments: Sequence[Any]) -> None:
        folders.append(save_call(variant, arguments, folder / f"program{len(folders)}"))

    with compiled.watching(note):
        compiled(*args, **kwargs)
    return folders


def save_call(variant: Variant, arguments: Sequence[Any], folder: Path) -> Path:
    """Run one Program on these arguments and leave it in a folder with its tensors and outputs."""
    program = variant.compiled.program
    loaded = variant.ready(arguments)
    inputs = [arguments[i] for i in variant.compiled.input_positions]
    tensors = dict(zip(program.inputs, inputs))
    tensors |= {name: loaded.value(name) for name in (*program.weights, *(c.name for c in program.constants))}
    for index, (output, value) in enumerate(zip(program.outputs, loaded.run(inputs).outputs)):
        if isinstance(output, Ref):
            tensors[f"output {index}"] = value
    program.save(folder)
    plain = {n: t.detach().clone(memory_format=torch.contiguous_format) for n, t in tensors.items()}
    save_file(plain, folder / TENSORS)
    return folder
