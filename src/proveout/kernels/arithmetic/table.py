"""Every function of one or two operands that the vector unit's published kernels are known for, by ttnn's name."""

from __future__ import annotations

from collections.abc import Callable

from proveout.kernels.arithmetic.activations import ACTIVATIONS
from proveout.kernels.arithmetic.bits import Tensor
from proveout.kernels.arithmetic.functions import ELEMENTARY
from proveout.kernels.arithmetic.pairs import PAIRS as ARITHMETIC
from proveout.kernels.arithmetic.pairs import Pair
from proveout.kernels.arithmetic.special import SPECIAL, fmod, remainder
from proveout.kernels.arithmetic.trigonometry import TRIGONOMETRY

FUNCTIONS: dict[str, Callable[..., Tensor]] = {**ELEMENTARY, **TRIGONOMETRY, **ACTIVATIONS, **SPECIAL}
"""(Sfpu, values, parameters) -> what the destination holds afterwards."""
PAIRS: dict[str, Pair] = {**ARITHMETIC, "fmod": fmod, "remainder": remainder}
"""(Sfpu, values, values) -> the same."""
