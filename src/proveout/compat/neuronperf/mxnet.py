"""NeuronPerf's namespace for MXNet, which is not served: whatever is asked of it says so."""

from __future__ import annotations

from typing import Any

from proveout.errors import UsageError


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UsageError("MXNet models are not served: Proveout takes PyTorch models, through proveout.torch.")
