"""Proveout takes a PyTorch model from eager mode to proven on an accelerator. The public names, nothing else.

Names that need torch are imported when they are first used, so that the command line starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proveout.api import Benchmark, benchmark_model, benchmark_script
    from proveout.devices.registry import open_device
    from proveout.engine.compiled import Compiled, compile
    from proveout.program import Program
    from proveout.store import Store
    from proveout.types import Job, Record, Settings, Timing, Workload

_HOMES = {
    "Benchmark": "proveout.api",
    "benchmark_model": "proveout.api",
    "benchmark_script": "proveout.api",
    "Compiled": "proveout.engine.compiled",
    "compile": "proveout.engine.compiled",
    "open_device": "proveout.devices.registry",
    "Program": "proveout.program",
    "Store": "proveout.store",
    "Job": "proveout.types",
    "Record": "proveout.types",
    "Settings": "proveout.types",
    "Timing": "proveout.types",
    "Workload": "proveout.types",
}
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'proveout' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


__all__ = [
    "Benchmark",
    "Compiled",
    "Job",
    "Program",
    "Record",
    "Settings",
    "Store",
    "Timing",
    "Workload",
    "__version__",
    "benchmark_model",
    "benchmark_script",
    "compile",
    "open_device",
]
