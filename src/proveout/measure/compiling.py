"""Compiles a model for each of its inputs and leaves a model index: what NeuronPerf's `compile` gives."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proveout.clock.loops import as_arguments
from proveout.compat.neuronperf import model_index
from proveout.devices.registry import find
from proveout.errors import ProveoutError, UsageError
from proveout.measure.inputs import DatasetOptions, input_sets
from proveout.measure.models import model_of


def compile_index(
    model: Any,
    inputs: Any,
    batch_sizes: int | Sequence[int] | None = None,
    pipeline_sizes: int | Sequence[int] | None = None,
    *,
    device_type: str = "sim",
    settings: Mapping[str, Any] | None = None,
    models_dir: str | Path = "models",
    model_name: str = "",
    filename: str | None = None,
    verbosity: int = 1,
) -> str:
    """Compile a model for each of its inputs; gives the file name of a model index, which `benchmark` takes.

    An input that it cannot be compiled for is told and left out of the index, as in NeuronPerf; if there is no other,
    the error is raised.
    """
    from proveout.engine.compiled import compile

    if pipeline_sizes not in (None, 1, [1], (1,)):
        raise UsageError("a pipeline is cut where it is measured: give pipeline_sizes to benchmark, with the model.")
    device = find(device_type).name
    sets = input_sets(inputs, batch_sizes, preprocessed=False, options=DatasetOptions())
    chosen = model_of(model, model_name)
    made = chosen.make() if chosen.make is not None else chosen.instance
    if hasattr(made, "eval"):
        made.eval()
    entries: list[model_index.Index] = []
    failures: list[ProveoutError] = []
    for number, given in enumerate(sets):
        began = time.monotonic()
        try:
            compiled = compile(made, device=device, settings=settings, call=as_arguments(given.value))
            name = f"{chosen.name}_b{given.batch_size}_p1_{secrets.token_hex(4)}"
            path = compiled.save(Path(models_dir, name))
        except ProveoutError as error:
            failures.append(error)
            if verbosity:
                print(f"Batch size {given.batch_size} was not compiled: {error}", file=sys.stderr)
            continue
        seconds = time.monotonic() - began
        told = {"input_idx": number, "batch_size": given.batch_size, "compile_s": seconds, "device": device}
        entries.append(model_index.create(path, chosen.name, **told))  # type: ignore[arg-type]
    if not entries:
        raise failures[0]
    return model_index.save(model_index.append(*entries), filename)
