"""What `benchmark_model` gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredPerformance:
    """Mean latency and throughput of one model; `kind` says whether a clock or a model of a chip gave them."""

    throughput: float
    mean_latency: float
    device: str
    runtime: str
    runtime_version: str
    device_type: str
    build_name: str
    throughput_units: str = "inferences per second (IPS)"
    latency_units: str = "milliseconds (ms)"
    kind: str = "measured"

    def print(self) -> None:
        version = f" v{self.runtime_version}" if self.runtime_version else ""
        print(f"Performance of build {self.build_name} on {self.device} ({self.runtime}{version}, {self.kind}) is:")
        print(f"\tMean Latency: {self.mean_latency:.3f} {self.latency_units}")
        print(f"\tThroughput: {self.throughput:.1f} {self.throughput_units}")


__all__ = ["MeasuredPerformance"]
