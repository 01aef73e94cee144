"""The state of one build: what was asked, which stages ran, and where its files are. A YAML file of plain lines."""

from __future__ import annotations

import enum
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proveout.compat.onnxflow.exceptions import ArgError
from proveout.folders import file_name

DEFAULT_ONNX_OPSET = int(os.environ.get("MLAGILITY_ONNX_OPSET") or 20)
"""What PyTorch's exporter writes where nothing is asked."""
MINIMUM_ONNX_OPSET = 13
DEFAULT_CACHE_DIR = os.environ.get("MLAGILITY_CACHE_DIR") or os.environ.get("PROVEOUT_CACHE") or "~/.cache/proveout"
DEFAULT_REBUILD_POLICY = "if_needed"
REBUILD_OPTIONS = ("if_needed", "always", "never")


class Status(enum.Enum):
    """How far a build is."""

    NOT_STARTED = "not_started"
    PARTIAL_BUILD = "partial_build"
    BUILD_RUNNING = "build_running"
    SUCCESSFUL_BUILD = "successful_build"
    FAILED_BUILD = "failed_build"


@dataclass(frozen=True)
class Config:
    """What was asked."""

    build_name: str
    auto_name: bool = False
    sequence: tuple[str, ...] = ()
    onnx_opset: int = DEFAULT_ONNX_OPSET


@dataclass
class Info:
    """What became of it."""

    base_onnx_exported: bool | None = None
    opt_onnx_exported: bool | None = None
    converted_onnx_exported: bool | None = None
    all_build_stages: list[str] = field(default_factory=list)
    completed_build_stages: list[str] = field(default_factory=list)
    build_stage_execution_times: dict[str, float] = field(default_factory=dict)
    onnx: dict[str, Any] = field(default_factory=dict)
    """What the file holds: its version, its inputs, how often each op."""


@dataclass
class State:
    """One build: handed from stage to stage, saved after each."""

    config: Config
    cache_dir: str = DEFAULT_CACHE_DIR
    model: Any = None
    inputs: dict[str, Any] | None = None
    monitor: bool = False
    rebuild: str = DEFAULT_REBUILD_POLICY
    info: Info = field(default_factory=Info)
    build_status: Status = Status.NOT_STARTED
    model_hash: str = ""
    intermediate_results: Any = None

    @property
    def onnx_dir(self) -> str:
        return str(output_dir(self.cache_dir, self.config.build_name) / "onnx")

    @property
    def original_inputs_file(self) -> str:
        """A list of one dict of arrays, in the precision that the last ONNX file takes."""
        return str(output_dir(self.cache_dir, self.config.build_name) / "inputs.npy")

    def _file(self, what: str) -> str:
        return str(Path(self.onnx_dir, f"{file_name(self.config.build_name)}-op{self.config.onnx_opset}-{what}.onnx"))

    @property
    def base_onnx_file(self) -> str:
        return self._file("base")

    @property
    def opt_onnx_file(self) -> str:
        return self._file("opt")

    @property
    def converted_onnx_file(self) -> str:
        return self._file("opt-f16")

    @property
    def onnx_file(self) -> str:
        """The last that a stage made."""
        last = self.intermediate_results[-1] if self.intermediate_results else ""
        return str(last) if str(last).endswith(".onnx") else ""

    def save(self) -> None:
        """JSON is YAML too."""
        Path(self.onnx_dir).mkdir(parents=True, exist_ok=True)
        document = {
            "build_status": self.build_status.value,
            "cache_dir": str(self.cache_dir),
            "model_hash": self.model_hash,
            "onnx_file": self.onnx_file,
            "config": vars(self.config) | {"sequence": list(self.config.sequence)},
            "info": vars(self.info),
        }
        state_file(self.cache_dir, self.config.build_name).write_text(json.dumps(document, indent=1) + "\n")


def output_dir(cache_dir: str | Path, build_name: str) -> Path:
    return Path(cache_dir).expanduser() / file_name(build_name)


def state_file(cache_dir: str | Path, build_name: str) -> Path:
    return output_dir(cache_dir, build_name) / f"{file_name(build_name)}_state.yaml"


def load_state(
    cache_dir: str | Path = DEFAULT_CACHE_DIR, build_name: str | None = None, state_path: str | Path | None = None
) -> State:
    """A build that is in the cache."""
    if (build_name is None) == (state_path is None):
        raise ArgError("load_state takes a build_name, or the state_path of its file; one of them.")
    path = Path(state_path) if state_path is not None else state_file(cache_dir, build_name or "")
    try:
        saved = json.loads(path.read_text())
        config = Config(**saved["config"] | {"sequence": tuple(saved["config"]["sequence"])})
        state = State(config, saved["cache_dir"], info=Info(**saved["info"]), model_hash=saved["model_hash"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ArgError(f"{path} is not the state of a build: {error}") from None
    state.build_status = Status(saved["build_status"])
    state.intermediate_results = [saved["onnx_file"]] if saved["onnx_file"] else None
    return state


__all__ = [
    "Config", "DEFAULT_CACHE_DIR", "DEFAULT_ONNX_OPSET", "DEFAULT_REBUILD_POLICY", "Info", "State", "Status",
    "load_state", "output_dir", "state_file",
]  # fmt: skip
