"""The times of a build, read back from its folder."""

from __future__ import annotations

import json
from pathlib import Path

from proveout.compat.onnxflow.build import DEFAULT_CACHE_DIR, output_dir
from proveout.compat.onnxflow.exceptions import ArgError


class ORTModel:
    """What ONNX Runtime took for a build on this machine's CPU."""

    device_type, runtime = "x86", "ort"

    def __init__(self, cache_dir: str | Path = DEFAULT_CACHE_DIR, build_name: str = "") -> None:
        self.cache_dir = cache_dir
        self.build_name = build_name

    @property
    def mean_latency(self) -> float:
        return float(self._outputs()["Mean Latency(ms)"])

    @property
    def throughput(self) -> float:
        return float(self._outputs()["Throughput"])

    @property
    def device_name(self) -> str:
        return str(self._outputs()["CPU Name"])

    def _outputs(self) -> dict[str, str | float]:
        path = output_dir(self.cache_dir, self.build_name) / f"{self.device_type}_benchmark" / "outputs.json"
        try:
            outputs: dict[str, str | float] = json.loads(path.read_text())
        except (OSError, ValueError):
            raise ArgError(f"{path}: it was not benchmarked with {self.runtime}, or the file is damaged.") from None
        return outputs


__all__ = ["ORTModel"]
