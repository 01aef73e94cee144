"""`faithful` numerics: kernels computed by the chip's own rules. Which kernel by which function its row says.

Every kernel whose row says nothing has its `fast` meaning, rounded to the value's dtype, and so have all on integers.
Packing to block floats follows the packer in both modes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from proveout.kernels.faithful.settings import Compute, keywords, told_fidelity
from proveout.kernels.row import Faithful, Kernel, flat_specs
from proveout.kernels.table import kernels, specs_of, storing
from proveout.program import Step
from proveout.types import DeviceSpec, TensorSpec

__all__ = ["Compute", "faithful", "keywords", "told_fidelity"]

Meaning = Callable[..., Any]
FLOATS = frozenset({"float32", "bfloat16", "bfloat8_b", "bfloat4_b"})


def faithful(step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, fidelity: str | None) -> Meaning:
    """What one ttnn Step computes on a chip; `fidelity` is the user's choice for all Steps, None leaves it to ttnn."""
    kernel = kernels()[step.kernel]
    dtypes = tuple(specs[n].dtype for n in step.outputs)
    operands = specs_of(step, specs)
    floats = all(s.dtype in FLOATS for v in operands.values() for s in flat_specs(v))
    if kernel.faithful is None or not floats:
        return storing(kernel, dtypes)
    compute = kernel.faithful.compute(operands, specs[step.outputs[0]], chip, fidelity)
    return _bound(kernel, kernel.faithful, compute, dtypes)


@functools.cache
def _bound(kernel: Kernel, rule: Faithful, compute: Compute, dtypes: tuple[str, ...]) -> Meaning:
    meaning = functools.partial(rule.meaning, kernel.name, compute)
    return storing(Kernel(kernel.name, meaning), dtypes)
