"""One call of a loaded Program, Step by Step, as the device computes it: for those who look at values on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from proveout.program import DEALLOCATE, Loaded, Step


def walk(loaded: Loaded, inputs: Sequence[Any]) -> Iterator[tuple[Step, Mapping[str, Any], tuple[Any, ...]]]:
    """Each Step of the body with the values that are live before it and its results; values that are freed go."""
    program = loaded.program
    values: dict[str, Any] = dict(zip(program.inputs, inputs))
    values.update((name, loaded.value(name)) for name in program.resident)
    with torch.no_grad():
        for step in program.body:
            if step.kernel == DEALLOCATE:
                values.pop(step.uses[0], None)
                continue
            results = loaded.run_step(step, values)
            yield step, values, results
            values.update(zip(step.outputs, results))
