"""Proveout takes a PyTorch model from eager mode to proven on an accelerator. The public names, nothing else.

Names that need torch are imported when they are first used, so that the command line starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from proveout import compat

if TYPE_CHECKING:
    from proveout.api import Benchmark, benchmark_model, benchmark_script
    from proveout.compat import neuronperf, torch_ttnn
    from proveout.compat.neuronperf import benchmarking, cpu, cuda, gpu, model_index, sim, torch
    from proveout.compat.neuronperf.dummy import DummyModel
    from proveout.compat.neuronperf.timing import Timer, timestamp_convert
    from proveout.devices.registry import open_device
    from proveout.engine.compiled import Compiled, compile
    from proveout.measure.benchmarking import benchmark
    from proveout.measure.capacity import capacity
    from proveout.measure.evaluation import evaluate
    from proveout.measure.generation import benchmark_generation
    from proveout.measure.metrics import BaseEvalMetric, list_metrics, register_metric, register_metric_from_existing
    from proveout.measure.reports import get_report_by_tag, get_reports
    from proveout.program import Program
    from proveout.report.bench import print_reports, print_results, write_csv, write_html, write_json, write_trace
    from proveout.serving import Load
    from proveout.store import Store
    from proveout.types import Job, Record, Settings, Timing, Workload

_HOMES = {
    "Benchmark": "proveout.api",
    "benchmark_model": "proveout.api",
    "benchmark_script": "proveout.api",
    "Compiled": "proveout.engine.compiled",
    "compile": "proveout.engine.compiled",
    "open_device": "proveout.devices.registry",
    "BaseEvalMetric": "proveout.measure.metrics",
    "DummyModel": "proveout.compat.neuronperf.dummy",
    "Timer": "proveout.compat.neuronperf.timing",
    "timestamp_convert": "proveout.compat.neuronperf.timing",
    "print_results": "proveout.report.bench",
    "benchmark": "proveout.measure.benchmarking",
    "benchmark_generation": "proveout.measure.generation",
    "capacity": "proveout.measure.capacity",
    "evaluate": "proveout.measure.evaluation",
    "get_report_by_tag": "proveout.measure.reports",
    "get_reports": "proveout.measure.reports",
    "Load": "proveout.serving",
    "list_metrics": "proveout.measure.metrics",
    "print_reports": "proveout.report.bench",
    "register_metric": "proveout.measure.metrics",
    "register_metric_from_existing": "proveout.measure.metrics",
    "write_csv": "proveout.report.bench",
    "write_html": "proveout.report.bench",
    "write_json": "proveout.report.bench",
    "write_trace": "proveout.report.bench",
    "Program": "proveout.program",
    "Store": "proveout.store",
    "Job": "proveout.types",
    "Record": "proveout.types",
    "Settings": "proveout.types",
    "Timing": "proveout.types",
    "Workload": "proveout.types",
}
compat.install()
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in compat.NAMES:
        return importlib.import_module(f"proveout.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'proveout' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


__all__ = [
    "Benchmark",
    "BaseEvalMetric",
    "Compiled",
    "DummyModel",
    "Job",
    "Load",
    "Program",
    "Record",
    "Settings",
    "Store",
    "Timer",
    "Timing",
    "Workload",
    "__version__",
    "benchmark_model",
    "benchmark_script",
    "benchmark",
    "benchmark_generation",
    "benchmarking",
    "capacity",
    "compile",
    "cpu",
    "cuda",
    "evaluate",
    "get_report_by_tag",
    "get_reports",
    "gpu",
    "list_metrics",
    "model_index",
    "neuronperf",
    "open_device",
    "print_reports",
    "print_results",
    "register_metric",
    "register_metric_from_existing",
    "sim",
    "timestamp_convert",
    "torch",
    "torch_ttnn",
    "write_csv",
    "write_html",
    "write_json",
    "write_trace",
]
