"""Proveout takes a PyTorch model from eager mode to proven on an accelerator. The public names, nothing else.

Names that need torch are imported when they are first used, so that the command line starts at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from proveout import compat
from proveout.lazy import lazy

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

compat.install()
__version__ = "0.1.0"


_own = lazy(
    __name__,
    {
        "proveout.api": "Benchmark benchmark_model benchmark_script",
        "proveout.engine.compiled": "Compiled compile",
        "proveout.devices.registry": "open_device",
        "proveout.measure.metrics": "BaseEvalMetric list_metrics register_metric register_metric_from_existing",
        "proveout.compat.neuronperf.dummy": "DummyModel",
        "proveout.compat.neuronperf.timing": "Timer timestamp_convert",
        "proveout.report.bench": "print_results print_reports write_csv write_html write_json write_trace",
        "proveout.measure.benchmarking": "benchmark",
        "proveout.measure.generation": "benchmark_generation",
        "proveout.measure.capacity": "capacity",
        "proveout.measure.evaluation": "evaluate",
        "proveout.measure.reports": "get_report_by_tag get_reports",
        "proveout.serving": "Load",
        "proveout.program": "Program",
        "proveout.store": "Store",
        "proveout.types": "Job Record Settings Timing Workload",
    },
)


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"proveout.{name}") if name in compat.NAMES else _own(name)


__all__ = [
    "Benchmark", "BaseEvalMetric", "Compiled", "DummyModel", "Job", "Load", "Program", "Record", "Settings", "Store",
    "Timer", "Timing", "Workload", "__version__", "benchmark_model", "benchmark_script", "benchmark",
    "benchmark_generation", "benchmarking", "capacity", "compile", "cpu", "cuda", "evaluate", "get_report_by_tag",
    "get_reports", "gpu", "list_metrics", "model_index", "neuronperf", "open_device", "print_reports", "print_results",
    "register_metric", "register_metric_from_existing", "sim", "timestamp_convert", "torch", "torch_ttnn", "write_csv",
    "write_html", "write_json", "write_trace",
]  # fmt: skip
