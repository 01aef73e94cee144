"""`proveout minimize`: a failure as one small file."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from proveout import isolate
from proveout.cli.jobs import run
from proveout.cli.output import emit, emit_json, note
from proveout.cli.request import Rebuild, SharedOptions, takes_request

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where minimized.py goes.")]
SlowerThan = Annotated[
    float | None,
    typer.Option(
        "--slower-than", metavar="MS", min=0, help="A modelled time above this is a failure.", show_default=False
    ),
]
FAILS = 3
"""What the file exits with while it fails (`reduce.file`, which needs torch)."""


@takes_request
def verb(request: SharedOptions, slower_than: SlowerThan = None, output: Output = Path("minimized")) -> int:
    """Reduce a failure to one small file.

    A failure is a crash, a refusal, a low PCC, a NaN, too little memory or a modelled time above a limit. The file has
    fewer ops, then smaller shapes, then plainer values, and fails in the same way: it is run once more to show that.

    \b
    Examples:
      proveout minimize net.py --set weights=bfloat4_b --pcc 0.9999
      proveout minimize linear.py --search-dir selftest --slower-than 0.01
    """
    chosen = dataclasses.replace(request, rebuild=Rebuild.always)
    limit = None if slower_than is None else round(slower_than * 1e6)
    results = run(chosen, ("minimize",), output, slower_than_ns=limit)
    documents: list[dict[str, Any]] = []
    failed = 0
    for result in results:
        job = result.record.job
        label = f"{job.workload.name} on {job.device}"
        path = Path(job.artifacts, "minimized.py")
        if not path.is_file():
            failed += result.failed
            note(f"{label}: {result.record.reason}")
            continue
        small = json.loads(path.with_suffix(".json").read_text())
        command = shlex.join([sys.executable, str(path)])
        again = isolate.run_command(command, output=sys.stderr, timeout_s=request.timeout, environment={})
        verified = again.returncode == FAILS
        failed += not verified
        del small["text"]
        own = {"model": job.workload.name, "device": job.device, "file": str(path), "verified": verified}
        documents.append({**own, **small})
        if not request.as_json:
            emit(_text(label, small, path, verified))
    if request.as_json:
        emit_json({"verb": "minimize", "failed": failed, "models": documents})
    return 1 if failed else 0


def _text(label: str, small: dict[str, Any], path: Path, verified: bool) -> str:
    ops = ", ".join(op.removesuffix(".default") for op in small["ops"])
    how = "in a process of its own it fails in the same way" if verified else "in a process of its own it does NOT fail"
    return "\n".join(
        [
            f"{label}: {small['failure']['kind']}: {small['failure']['message']}",
            f"  {small['ops_before']} ops → {len(small['ops'])} ({ops}), "
            f"{small['elements_before']:,} numbers → {small['elements']:,}, in {small['tried']} tries",
            f"  {path}: {how}",
        ]
    )
