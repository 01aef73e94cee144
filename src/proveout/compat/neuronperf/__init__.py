"""NeuronPerf: `import neuronperf as npf` after `proveout compat on`, or `import proveout.neuronperf as npf`.

What has another meaning in `proveout` itself (`benchmark` and `compile` with functions of the user's own) or another
shape (`get_reports`) has NeuronPerf's here; every other name of `proveout` is here too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

MODULES = "benchmarking cpu cuda gpu model_index mxnet reporting sim tensorflow timing torch"
HOMES = {
    "benchmarking": "Benchmarker benchmark compile BENCHMARK_SECS SUPPORTED_DEVICE_TYPES",
    "logs": "log set_verbosity",
    "dummy": "DummyModel",
    "timing": "Timer timestamp_convert",
    "reporting": "CSV_COLS PRINT_COLS REPORT_COLS SUMMARY_COLS "
    "get_reports print_report print_reports print_results write_csv write_json",
    "running": "evaluate",
}
HOME_OF = {name: module for module, names in HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in MODULES.split():
        return import_module(f"{__name__}.{name}")
    if name in HOME_OF:
        return getattr(import_module(f"{__name__}.{HOME_OF[name]}"), name)
    own = import_module("proveout")
    if name not in own.__all__:
        raise AttributeError(f"module 'neuronperf' has no attribute {name!r}")
    return getattr(own, name)
