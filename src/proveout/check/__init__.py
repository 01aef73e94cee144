"""Is it right? Outputs against eager, and every Step against its float32 meaning."""

from proveout.check.compare import compare
from proveout.check.nonfinite import first_nonfinite
from proveout.check.outputs import compare_outputs
from proveout.check.precision import eager_in
from proveout.check.steps import compare_steps

__all__ = ["compare", "compare_outputs", "compare_steps", "eager_in", "first_nonfinite"]
