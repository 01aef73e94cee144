"""NeuronPerf's `reporting`: reports from pairs, and the ways to see and keep them."""

from __future__ import annotations

from proveout.compat.neuronperf.results import get_reports
from proveout.report.bench import PRINT_COLS, print_reports, print_results, write_csv, write_json

print_report = print_reports
"""As some of NeuronPerf's own scripts call it, with one report."""
SUMMARY_COLS = PRINT_COLS
CSV_COLS = REPORT_COLS = (
    "model_name", "n_models", "workers_per_model", "pipeline_size", "batch_size", "throughput_avg", "throughput_peak",
    "latency_ms_p0", "latency_ms_p50", "latency_ms_p90", "latency_ms_p95", "latency_ms_p99", "latency_ms_p100",
    "cpu_avg_percent", "cpu_percent_p50", "mem_avg_percent", "mem_percent_p50", "e2e_avg_ms", "infer_avg_ms",
    "total_infs", "total_s", "cast_mode", "performance_level", "model_filename", "device_type", "instance_type",
    "cost_per_1m_inf",
)  # fmt: skip
"""The columns that NeuronPerf's CSV files have; ours have every field unless `cols` names some."""

__all__ = [
    "CSV_COLS",
    "PRINT_COLS",
    "REPORT_COLS",
    "SUMMARY_COLS",
    "get_reports",
    "print_report",
    "print_reports",
    "print_results",
    "write_csv",
    "write_json",
]
