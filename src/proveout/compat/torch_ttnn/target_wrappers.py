"""Calls that the original wraps in functions of its own. Here a Program holds ttnn's own, so each name means that."""

from __future__ import annotations

from proveout import ttnn

clone, repeat, conv = ttnn.clone, ttnn.repeat, ttnn.conv2d

__all__ = ["clone", "conv", "repeat"]
