"""`proveout discover`: which models a script calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proveout.cli.request import All, Json, ScriptArgs, Scripts, SearchDir

if TYPE_CHECKING:
    from proveout.capture import Discovery

TITLES = ("Model", "Class", "Hash", "Parameters", "Inputs", "Calls", "Seconds", "Built at")


def verb(
    scripts: Scripts = None,
    all_scripts: All = False,
    search_dir: SearchDir = None,
    script_args: ScriptArgs = "",
    timeout: Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each script.")] = 300.0,
    as_json: Json = False,
) -> int:
    """List the models that scripts call.

    Runs each script in a process of its own and watches it. Nothing is compiled.

    \b
    Example:
      proveout discover two_models.py --search-dir selftest
    """
    from proveout.capture import discover, resolve
    from proveout.cli.output import emit_json
    from proveout.cli.progress import Progress

    found = []
    chosen = resolve(scripts or [], search_dir or [], all_scripts)
    with Progress(len(chosen)) as progress:
        for script, _ in chosen:
            progress.start(what := f"looking for models in {script.name}")
            found.append(discover(script, script_args=script_args, timeout_s=timeout))
            progress.step(what, f"{script.name}: {len(found[-1].workloads)} found in {found[-1].seconds:.1f} s")
    if as_json:
        emit_json({"scripts": list(map(_document, found))})
    else:
        _print(found)
    return 1 if any(_failed(discovery) for discovery in found) else 0


def _failed(discovery: Discovery) -> bool:
    """Whether a script gave no model; one labelled `expect::fail` may."""
    return not discovery.workloads and ("expect", ("fail",)) not in discovery.labels


def _document(discovery: Discovery) -> dict[str, Any]:
    from proveout.types import to_json

    models = to_json(discovery.workloads)
    return {
        "script": discovery.script,
        "models": models,
        "labels": dict(to_json(discovery.labels)),
        "error": discovery.error,
        "log": discovery.log,
        "seconds": discovery.seconds,
    }


def _print(found: Sequence[Discovery]) -> None:
    from proveout.cli.output import colour, emit, note
    from proveout.report.terminal import grid

    rows = [
        (
            w.name,
            w.class_name,
            w.selector,
            w.parameters,
            ", ".join(f"{name} {spec.dtype}{list(spec.shape)}" for name, spec in w.inputs),
            w.calls,
            round(w.seconds, 3),
            w.location,
        )
        for discovery in found
        for w in discovery.workloads
    ]
    emit(grid(TITLES, rows, colour()) if rows else "No models.")
    for discovery in found:
        if discovery.error:
            note(f"{discovery.script}: {discovery.error}")
