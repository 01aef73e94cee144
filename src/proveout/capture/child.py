"""The process that `discover` starts: runs one script, writes what was found as JSON and ends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from proveout.capture.running import explain, print_traceback
from proveout.capture.watcher import observe
from proveout.types import to_json


def main(script: str, script_args: str, result: str) -> None:
    if not sys.flags.safe_path:
        del sys.path[0]  # `python -m` put the working folder there; `python script.py` would not
    path = Path(script)
    workloads, _, raised = observe(path, script_args, keep=())
    if raised and not isinstance(raised, SystemExit):
        print_traceback(raised)
    found = {"workloads": to_json(workloads), "error": explain(path, raised, ran=bool(workloads))}
    unfinished = Path(f"{result}.part")
    unfinished.write_text(json.dumps(found, allow_nan=False))
    os.replace(unfinished, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
