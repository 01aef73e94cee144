"""The tracer: which ops a model's graphs hold, forward and backward, and how large their tensors are.

trace_script(request)   runs a script in a process of its own and leaves a raw dump of each of its models
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from proveout.coding import to_json
from proveout.isolate import run_python
from proveout.types import Settings


@dataclass(frozen=True)
class Request:
    """One script to trace, and what to leave of it in `folder`."""

    name: str
    script: str
    script_args: str
    folder: str
    orig: bool = False
    """The ATen graphs as PyTorch gives them; else the compiled Programs."""
    backward: bool = False
    profile: bool = False
    device: str = "sim"
    settings: Settings = Settings(precision="bfloat16")


@dataclass(frozen=True)
class Traced:
    """The dumps of one script and what went wrong; `seconds` of its process."""

    name: str
    files: tuple[str, ...]
    errors: tuple[str, ...]
    log: str
    seconds: float


def trace_script(request: Request, timeout_s: float) -> Traced:
    """Whatever the script does, this comes back."""
    with tempfile.TemporaryDirectory(prefix="proveout-") as folder:
        result = Path(folder, "traced.json")
        text = json.dumps(to_json(request))
        outcome = run_python("proveout.tracer.child", [str(result)], stdin=text, timeout_s=timeout_s)
        found = json.loads(result.read_text() if result.exists() else '{"files": [], "errors": []}')
    errors = found["errors"] or ([] if outcome.ok else [f"the process {outcome.story}"])
    return Traced(request.name, tuple(found["files"]), tuple(errors), outcome.log, outcome.seconds)
