"""NeuronPerf: `import neuronperf as npf` after `proveout compat on`, or `import proveout.neuronperf as npf`.

What has another meaning in `proveout` itself (`benchmark` and `compile` with functions of the user's own) or another
shape (`get_reports`) has NeuronPerf's here; every other name of `proveout` is here too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = (
    "benchmarking",
    "cpu",
    "cuda",
    "gpu",
    "model_index",
    "mxnet",
    "reporting",
    "sim",
    "tensorflow",
    "timing",
    "torch",
)
HOMES = {
    "Benchmarker": "benchmarking",
    "benchmark": "benchmarking",
    "compile": "benchmarking",
    "BENCHMARK_SECS": "benchmarking",
    "SUPPORTED_DEVICE_TYPES": "benchmarking",
    "log": "logs",
    "set_verbosity": "logs",
    "DummyModel": "dummy",
    "Timer": "timing",
    "timestamp_convert": "timing",
    "CSV_COLS": "reporting",
    "PRINT_COLS": "reporting",
    "REPORT_COLS": "reporting",
    "SUMMARY_COLS": "reporting",
    "evaluate": "running",
    "get_reports": "reporting",
    "print_reports": "reporting",
    "print_results": "reporting",
    "write_csv": "reporting",
    "write_json": "reporting",
}


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    if name in HOMES:
        return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    own = import_module("proveout")
    if name not in own.__all__:
        raise AttributeError(f"module 'neuronperf' has no attribute {name!r}")
    return getattr(own, name)
