"""How fast is it? Warm-up, raw samples in ns, and an honest kind."""

from proveout.measure.sampling import environment, measured, modelled

__all__ = ["environment", "measured", "modelled"]
