"""When a choice pays: what Steps take by the model of the chip, and how much less it must be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from proveout.kernels.cost import program_ns, step_time
from proveout.program import Step
from proveout.types import DeviceSpec, Settings, TensorSpec

LEAST_GAIN = 0.05
"""What a choice must save of the time without it: predictions are no sharper."""


def pays(before_ns: float, after_ns: float) -> bool:
    return after_ns <= (1 - LEAST_GAIN) * before_ns and after_ns < before_ns


def steps_ns(steps: Iterable[Step], specs: Mapping[str, TensorSpec], chip: DeviceSpec, settings: Settings) -> int:
    """Modelled time of some Steps, with the gaps after them."""
    return program_ns([step_time(step, specs, chip, settings) for step in steps], settings)
