"""The process that `discover` starts: runs one script, writes what was found as JSON and ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

from proveout.capture.network import needs_network
from proveout.capture.onnx import describe
from proveout.capture.running import explain, failure_of, print_traceback, source_files
from proveout.capture.watcher import observe
from proveout.coding import from_json, to_json
from proveout.errors import EnvironmentFault
from proveout.limits import impose
from proveout.types import Limits

PACKAGES = {
    "diffusers": "diffusers",
    "numpy": "numpy",
    "sklearn": "scikit-learn",
    "timm": "timm",
    "torch_geometric": "torch-geometric",
    "torchvision": "torchvision",
    "transformers": "transformers",
}
"""Module and distribution of the libraries that a model may come from."""


class Deadline(BaseException):
    """The time is up; not an Exception, so that no script catches it by accident."""


def main(request: str, result: str) -> None:
    if not sys.flags.safe_path:
        del sys.path[0]  # `python -m` put the working folder there; `python script.py` would not
    options = json.loads(request)
    script = Path(options["script"])

    def stopping(why: str) -> None:
        _write(result, {"workloads": [], "error": f"{script.name} was stopped: {why}.", "failure": "crash"})

    try:
        impose(from_json(Limits, options["limits"]), scratch=os.path.dirname(result), stopping=stopping)
    except EnvironmentFault as fault:
        _write(result, {"fault": str(fault)})
        return
    # A little before the caller's own deadline, so that the models found so far can still be told.
    signal.signal(signal.SIGALRM, _raise_deadline)
    signal.setitimer(signal.ITIMER_REAL, max(0.8 * options["timeout_s"], options["timeout_s"] - 2))
    raised: BaseException | None = None
    if script.suffix == ".onnx":
        workloads, raised = describe(script)
    else:
        workloads, _, raised = observe(
            script, options["script_args"], keep=(), max_depth=options["max_depth"], weights=options["weights"]
        )
    signal.setitimer(signal.ITIMER_REAL, 0)
    if raised and not isinstance(raised, SystemExit):
        print_traceback(raised)
    out_of_time = isinstance(raised, Deadline)
    error = _out_of_time(script, bool(workloads)) if out_of_time else explain(script, raised, ran=bool(workloads))
    missing = isinstance(raised, ImportError) or needs_network(raised)
    _write(
        result,
        {
            "workloads": to_json(workloads),
            "error": error,
            "failure": ("timeout" if out_of_time else failure_of(raised)) if error else "",
            "lasting": not missing,
            "files": source_files(script),
            "packages": {dist: metadata.version(dist) for module, dist in PACKAGES.items() if module in sys.modules},
        },
    )


def _raise_deadline(number: int, frame: FrameType | None) -> None:
    raise Deadline


def _out_of_time(script: Path, ran: bool) -> str:
    when = "after its models were found" if ran else "before any model had run"
    return f"{script.name} ran past its limit and was stopped {when}. Give it more time: --timeout"


def _write(result: str, document: dict[str, Any]) -> None:
    unfinished = Path(f"{result}.part")
    unfinished.write_text(json.dumps(to_json(document), allow_nan=False))
    os.replace(unfinished, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
