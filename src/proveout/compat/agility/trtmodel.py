"""TensorRT's times of a build. TensorRT is not run here: `--device nvidia` runs on `cuda` with our own compiler."""

from __future__ import annotations

from proveout.compat.agility.ortmodel import ORTModel


class TRTModel(ORTModel):
    """What a file of MLAgility's own has."""

    device_type, runtime = "nvidia", "trt"


__all__ = ["TRTModel"]
