"""The process that a trace runs in: one script, a dump for each of its models, and what went wrong as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
import traceback
from pathlib import Path

from proveout.capture import watch
from proveout.capture.named import Named
from proveout.capture.running import explain
from proveout.coding import from_json
from proveout.tracer import Request, raw
from proveout.tracer.live import trace


def main(result: str) -> None:
    request = from_json(Request, json.loads(sys.stdin.read()))
    script = Path(request.script)
    found, raised = watch(script, request.script_args)
    files, errors = [], [explain(script, raised, ran=bool(found))]
    named = Named(request.name, script, request.script_args)
    for one in found:
        workload = dataclasses.replace(one.workload, name=named.call(one.workload.name))
        stem = raw.file_name(workload.name, workload.selector, "original" if request.orig else "compiled")
        profile = Path(request.folder, "profile", f"{stem}.json") if request.profile else None
        try:
            dump = trace(
                dataclasses.replace(one, workload=workload),
                orig=request.orig,
                backward=request.backward,
                profile=profile,
                device=request.device,
                settings=request.settings,
            )
        except Exception as error:  # one model's failure leaves the others of its script
            traceback.print_exc()
            errors.append(f"{workload.name}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            continue
        files.append(str(raw.save(dump, Path(request.folder, "raw"))))
        errors.append(f"{dump.model}: {dump.note}" if dump.note else "")
    Path(result).write_text(json.dumps({"files": files, "errors": [error for error in errors if error]}))


if __name__ == "__main__":
    main(sys.argv[1])
