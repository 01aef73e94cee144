"""`proveout benchmark`: check and time the models of scripts."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from proveout.cli.jobs import present, run
from proveout.cli.request import SharedOptions, takes_request
from proveout.cli.verbs import discover
from proveout.devices.registry import DEFAULT, HOST
from proveout.errors import UsageError
from proveout.types import Do


class RuntimeName(StrEnum):
    proveout = "proveout"
    eager = "eager"
    inductor = "inductor"
    ort = "ort"


RuntimeOption = Annotated[
    RuntimeName, typer.Option("--runtime", help="What runs the model; others than proveout run on the CPU.")
]
AnalyzeOnly = Annotated[bool, typer.Option("--analyze-only", help="Find the models; compile and run nothing.")]
BuildOnly = Annotated[bool, typer.Option("--build-only", help="Compile the models; run nothing on the device.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Save the Programs here.", show_default=False),
]
LeanCache = Annotated[bool, typer.Option("--lean-cache", help="Keep the Records only, no compiled Programs.")]


@takes_request
def verb(
    request: SharedOptions,
    runtime: RuntimeOption = RuntimeName.proveout,
    analyze_only: AnalyzeOnly = False,
    build_only: BuildOnly = False,
    lean_cache: LeanCache = False,
    output: Output = None,
) -> int:
    """Compile, check and time the models of scripts.

    Finds the models that each script calls, compiles them for the device, compares their outputs with
    the reference and times them beside the original. ONNX files are timed as they are.

    \b
    Examples:
      proveout benchmark linear.py --search-dir selftest
      proveout benchmark models/*.py --device sim,cpu --iterations 50
      proveout benchmark --all --search-dir selftest --labels task::Other --small
      proveout benchmark bert.py --search-dir transformers --runtime inductor
    """
    if analyze_only:
        return discover.show(request)
    if runtime is not RuntimeName.proveout:
        if build_only:
            raise UsageError(f"--build-only is for our own compiler; --runtime {runtime.value} has nothing to build.")
        if request.device not in (DEFAULT, HOST):
            raise UsageError(f"--runtime {runtime.value} runs on the CPU; leave --device {request.device} out.")
        request = dataclasses.replace(request, device=HOST)
    do: tuple[Do, ...] = ("compile",) if build_only else ("check", "benchmark")
    return present("benchmark", run(request, do, output, runtime=runtime.value, lean=lean_cache), request)
