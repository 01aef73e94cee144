"""The product of a matmul, for those who ask about its shape and not its time."""

from __future__ import annotations

from proveout.chip.forms.products import product_of

__all__ = ["product_of"]
