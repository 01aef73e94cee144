"""The kernel table: what each ttnn function means, asks, refuses and costs."""

from proveout.kernels.row import Kernel
from proveout.kernels.table import infer, kernels, refusal

__all__ = ["Kernel", "infer", "kernels", "refusal"]
