"""The devices that MLAgility names, and the runtimes of each."""

from __future__ import annotations

from proveout.cli.benchit.targets import RUNTIMES_OF

SUPPORTED_DEVICES = {device: list(runtimes) for device, runtimes in RUNTIMES_OF.items()}
DEFAULT_RUNTIME = 0

__all__ = ["DEFAULT_RUNTIME", "SUPPORTED_DEVICES"]
