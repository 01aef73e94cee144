"""How fast is it? Warm-up, raw samples in ns, an honest kind, and what the samples can support."""

from proveout.measure.compare import gate
from proveout.measure.sampling import environment, measured, modelled
from proveout.measure.statistics import summarise, throughput
from proveout.measure.steady import judge, steady_state

__all__ = ["environment", "gate", "judge", "measured", "modelled", "steady_state", "summarise", "throughput"]
