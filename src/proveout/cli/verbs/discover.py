"""`proveout discover`: which models a script calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from proveout.capture import Discovery, How
from proveout.capture.weights import SEED
from proveout.cli.options import (
    All,
    Json,
    Labels,
    MaxDepth,
    MemoryLimit,
    NoNetwork,
    Sandbox,
    ScriptArgs,
    Scripts,
    SearchDir,
    Small,
    WeightsOption,
)
from proveout.cli.output import colour, emit, emit_json, note
from proveout.cli.progress import Progress
from proveout.cli.request import SharedOptions, checked_weights, chosen_scripts, limits_of
from proveout.coding import to_json
from proveout.columns.words import number
from proveout.report.tables.terminal import grid
from proveout.runtimes import check_runtime
from proveout.sweep import Local, selected
from proveout.sweep.tasks import Find
from proveout.types import Workload
from proveout.words import counted

TITLES = ("Model", "Class", "Hash", "Parameters", "MB", "Inputs", "Calls", "Seconds", "Built at")


def verb(
    scripts: Scripts = None,
    all_scripts: All = False,
    search_dir: SearchDir = None,
    labels: Labels = None,
    small: Small = False,
    weights: WeightsOption = "",
    script_args: ScriptArgs = "",
    max_depth: MaxDepth = 0,
    no_network: NoNetwork = False,
    sandbox: Sandbox = False,
    memory: MemoryLimit = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each script.")] = 300.0,
    as_json: Json = False,
) -> int:
    """List the models that scripts call.

    Runs each script in a process of its own and watches it. Nothing is compiled.

    \b
    Examples:
      proveout discover two_models.py --search-dir selftest
      proveout discover attention.py --search-dir selftest --max-depth 1
      proveout discover download.py --weights random --sandbox --no-network
    """
    return show(
        SharedOptions(
            scripts=scripts,
            all_scripts=all_scripts,
            search_dir=search_dir,
            labels=labels,
            small=small,
            weights=weights,
            script_args=script_args,
            max_depth=max_depth,
            no_network=no_network,
            sandbox=sandbox,
            memory=memory,
            timeout=timeout,
            as_json=as_json,
        )
    )


def show(request: SharedOptions) -> int:
    """Look for models and list them."""
    discoveries = look(request)
    if request.as_json:
        emit_json({"scripts": list(map(_document, discoveries))})
    else:
        _print(discoveries)
    return 1 if any(map(gave_nothing, discoveries)) else 0


def look(request: SharedOptions) -> list[Discovery]:
    """Run the scripts, always anew: how long their models ran is part of the answer."""
    how = _how(request)
    discoveries = []
    chosen = chosen_scripts(request.scripts, request.search_dir, request.all_scripts, request.labels)
    check_runtime("proveout", [script for script, _ in chosen])
    workers = Local(1, [script for script, _ in chosen])
    try:
        with Progress(len(chosen)) as progress:
            for script, selectors in chosen:
                task = Find(script, how, request.timeout)
                progress.start(task.name)
                discovery = workers.submit(task).result()
                discoveries.append(discovery)
                selected(discovery, script, selectors)
                models = counted(len(discovery.workloads), "model")
                progress.step(task.name, f"{script.name}: {models} found in {discovery.seconds:.1f} s")
    finally:
        workers.stop()
    return discoveries


def remembered(request: SharedOptions, cache: Path) -> list[Workload]:
    """All models of the scripts of which only some are named, as far as the cache has them; nothing is run."""

    def nothing(*_: Any, **__: Any) -> Any:
        raise LookupError

    chosen = chosen_scripts(request.scripts, request.search_dir, request.all_scripts, request.labels)
    models: list[Workload] = []
    for script in [script for script, selectors in chosen if selectors]:
        with suppress(LookupError):
            models += Find(script, _how(request), request.timeout, cache.absolute()).discovery(nothing).workloads
    return models


def _how(request: SharedOptions) -> How:
    limits = limits_of(request)
    return How(request.script_args, request.small, request.max_depth, checked_weights(request.weights), limits)


def gave_nothing(discovery: Discovery) -> bool:
    """Whether a script gave no model; one labelled `expect::fail` may."""
    return not discovery.workloads and ("expect", ("fail",)) not in discovery.labels


def _document(discovery: Discovery) -> dict[str, Any]:
    models = to_json(discovery.workloads)
    return {
        "script": discovery.script,
        "models": models,
        "labels": dict(to_json(discovery.labels)),
        "error": discovery.error,
        "failure": discovery.failure,
        "log": discovery.log,
        "seconds": discovery.seconds,
    }


def _print(discoveries: Sequence[Discovery]) -> None:
    rows = [
        (
            w.name,
            w.class_name,
            w.selector,
            f"{w.parameters:,}",
            number(w.parameter_bytes / 1e6),
            ", ".join(f"{name} {spec.dtype}{list(spec.shape)}" for name, spec in w.inputs),
            w.calls,
            round(w.seconds, 3),
            w.location,
        )
        for discovery in discoveries
        for w in discovery.workloads
    ]
    emit(grid(TITLES, rows, colour()) if rows else "No models.")
    for discovery in discoveries:
        if discovery.error:
            note(f"{discovery.script}: {discovery.error}")
        for w in discovery.workloads:
            if w.obstacle:
                note(f"{w.name}: {w.obstacle}")
        for name in sorted({name for w in discovery.workloads for name in w.random_weights}):
            note(f"{discovery.script}: {name} has random weights (seed {SEED}), not the published ones")
