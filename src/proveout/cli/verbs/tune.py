"""`proveout tune`: the quickest model within its error budget, op by op, with a certificate."""

from __future__ import annotations

import dataclasses
import json
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from proveout.cli.jobs import run
from proveout.cli.output import emit, emit_json, note
from proveout.cli.request import Rebuild, SharedOptions, takes_request
from proveout.coding import to_json
from proveout.devices.registry import find
from proveout.errors import EnvironmentFault, UsageError
from proveout.report.tune.text import headline, text
from proveout.tune.certificate import read
from proveout.types import Job, Tune

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where certificate.json goes.")]
Cure = Annotated[bool, typer.Option("--cure", help="Find the smallest change that brings a failing PCC back.")]
Check = Annotated[
    Path | None,
    typer.Option("--check", metavar="CERTIFICATE", help="Replay a certificate instead.", show_default=False),
]
Minutes = Annotated[
    float, typer.Option("--budget-minutes", metavar="MIN", min=0.1, max=30, help="For each model, at most 30.")
]
Top1 = Annotated[
    float,
    typer.Option(
        "--top1", metavar="SHARE", min=0, max=1, help="Least share of rows that keep their largest score, beside --pcc."
    ),
]
BESIDE_S = 900.0
"""For compiling, and for what is verified last."""


@takes_request
def verb(
    request: SharedOptions,
    cure: Cure = False,
    check: Check = None,
    budget_minutes: Minutes = 30.0,
    top1: Top1 = 0.0,
    output: Output = Path("tuned"),
) -> int:
    """Find the fastest formats and placements that keep the PCC.

    The error of each decision is measured, a solver finds the best combination and proves a bound, and the winner is
    verified on inputs that the search has not seen. Times are modelled, in a trace unless --set trace=false.

    \b
    Examples:
      proveout tune attention.py --search-dir selftest --pcc 0.999
      proveout tune net.py --check tuned/net/certificate.json
    """
    if find_spec("ortools") is None:
        raise EnvironmentFault("the search needs OR-Tools. Install it with: pip install 'proveout[tune]'")
    for device in request.device.split(","):
        if find(device.strip()).target != "ttnn" or find(device.strip()).times != "modelled":
            raise UsageError(f"device {device!r} has no modelled chip. Use --device sim.")
    if check is not None:
        if cure:
            raise UsageError("--cure looks for a cure and --check replays a certificate; choose one.")
        read(check)  # refused before any work
    goal = Tune("cure" if cure else "faster", budget_minutes, str(check.absolute()) if check else "", top1)
    traced = () if any(o.partition("=")[0].strip() == "trace" for o in request.overrides or ()) else ("trace=true",)
    chosen = dataclasses.replace(
        request,
        rebuild=Rebuild.always,
        overrides=[*(request.overrides or ()), *traced],
        timeout=max(request.timeout, 60 * budget_minutes + BESIDE_S),
    )
    results = run(chosen, ("tune",), output, tune=goal)
    documents: list[dict[str, Any]] = []
    failed = 0
    for result in results:
        job = result.record.job
        label = f"{job.workload.name} on {job.device}"
        path = Path(job.artifacts, "checked.json" if check else "certificate.json")
        if not path.is_file():
            failed += 1
            note(f"{label}: {result.record.reason}")
            continue
        own = {"model": job.workload.name, "device": job.device}
        if check is not None:
            wrong = json.loads(path.read_text())["wrong"]
            failed += bool(wrong)
            documents.append({**own, "certificate": str(check), "holds": not wrong, "wrong": wrong})
            if not request.as_json:
                emit(_verdict(label, check, wrong))
            continue
        certificate = read(path)
        failed += not certificate.holds
        documents.append({**own, "file": str(path), "headline": headline(certificate), **to_json(certificate)})
        if not request.as_json:
            emit(text(label, certificate) + "\n")
        note(f"wrote {path}. To check it again:\n  {_replay(request, job, path)}")
    if request.as_json:
        emit_json({"verb": "tune", "failed": failed, "models": documents})
    return 1 if failed else 0


def _replay(request: SharedOptions, job: Job, path: Path) -> str:
    """The command that checks a certificate, as one types it in any folder."""
    workload = job.workload
    words = ["proveout", "tune", f"{workload.script}::{workload.selector}", "--device", job.device]
    options = {
        "--pcc": request.pcc, "--precision": request.precision and request.precision.value,
        "--script-args": workload.script_args, "--weights": request.weights,
    }  # fmt: skip
    words += [text for name, value in options.items() if value for text in (name, str(value))]
    words += [text for value in request.overrides or () for text in ("--set", value)]
    return shlex.join([*words, "--check", str(path)])


def _verdict(label: str, path: Path, wrong: list[str]) -> str:
    if not wrong:
        return f"{label}: {path} holds: times, PCCs, bound and errors were made again."
    return "\n".join([f"{label}: {path} does NOT hold:", *(f"  {sentence}." for sentence in wrong)])
