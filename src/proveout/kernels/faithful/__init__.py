"""`faithful` numerics: kernels computed by the chip's own rules. Which kernel by which function its row says.

Every kernel whose row says nothing has its `fast` meaning, rounded to the value's dtype, and so have all on integers.
Packing to block floats follows the packer in both modes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from proveout.chip.specs import CHIPS
from proveout.kernels.arithmetic.formats import to_source
from proveout.kernels.faithful.settings import Compute, keywords, told_fidelity
from proveout.kernels.row import Faithful, Kernel, flat_specs
from proveout.kernels.table import kernels, specs_of, storing
from proveout.program import Step
from proveout.types import DeviceSpec, TensorSpec

__all__ = ["Compute", "as_read", "faithful", "keywords", "told_fidelity"]

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


def as_read(step: Step, specs: Mapping[str, TensorSpec]) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """What the matrix unit keeps of a Step's float32 operands, on every chip alike; None where it reads none."""
    rule = None if step.on_host or not step.outputs else kernels()[step.kernel].faithful
    operands = {} if rule is None else specs_of(step, specs)
    dtypes = {s.dtype for v in operands.values() for s in flat_specs(v)}
    if rule is None or "float32" not in dtypes or not dtypes <= FLOATS or not rule.on_matrix_unit(operands):
        return None
    compute = rule.compute(operands, specs[step.outputs[0]], next(iter(CHIPS.values())), None)
    return functools.partial(to_source, fp32_dest=compute.fp32_dest)


@functools.cache
def _bound(kernel: Kernel, rule: Faithful, compute: Compute, dtypes: tuple[str, ...]) -> Meaning:
    meaning = functools.partial(rule.meaning, kernel.name, compute)
    return storing(Kernel(kernel.name, meaning), dtypes)
