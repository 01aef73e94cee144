"""The kernel table: what each ttnn function means, asks, refuses and costs."""

from proveout.kernels.table import Kernel, infer, kernels, refusal

__all__ = ["Kernel", "infer", "kernels", "refusal"]
