"""`proveout run`: a model by its name on one backend, beside eager PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proveout.cli.request import Json, ScriptArgs, SearchDir

if TYPE_CHECKING:
    from proveout.reference import Ran

Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A script or its stem in the corpora, or a name for transformers; may be repeated.",
        show_default=False,
    ),
]
Backend = Annotated[
    str,
    typer.Option(
        "--backend", metavar="B", help="proveout, stat, eager or inductor; also torch_ttnn and torch_stat, as before."
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="D", help="For the backend proveout.")]
Iterations = Annotated[int, typer.Option("--iterations", min=1, metavar="N", help="Timed calls.")]
Timeout = Annotated[float, typer.Option("--timeout", min=1, metavar="S", help="Seconds for each model.")]


def verb(
    model: Models,
    backend: Backend = "proveout",
    device: Device = "sim",
    search_dir: SearchDir = None,
    script_args: ScriptArgs = "",
    iterations: Iterations = 5,
    timeout: Timeout = 600.0,
    as_json: Json = False,
) -> int:
    """Run a model by name and compare it with eager PyTorch.

    The backend stat runs the ATen graphs unchanged and counts their ops. Nothing is kept in the cache.

    \b
    Examples:
      proveout run --model linear --backend proveout
      proveout run --model bert --backend torch_stat --script-args "num_hidden_layers=2"
    """
    from proveout.capture.named import named
    from proveout.cli.output import colour, emit, emit_json, note
    from proveout.cli.progress import Progress
    from proveout.cli.request import DEFAULT_PRECISION
    from proveout.devices.registry import ALIASES, find
    from proveout.reference import Request, canonical, run_beside_eager
    from proveout.report.terminal import grid
    from proveout.types import Settings

    chosen, name = named(model, search_dir or [], script_args), canonical(backend)
    device = ALIASES.get(device, device)
    settings = Settings.of({"precision": DEFAULT_PRECISION[find(device).target].value})
    ran: list[Ran] = []
    with Progress(len(chosen)) as progress:
        for one in chosen:
            progress.start(what := f"running {one.name} on {name}")
            request = Request(one.name, str(one.script), one.script_args, name, device, settings, iterations)
            ran += run_beside_eager(request, timeout)
            progress.step(what, f"{one.name}: {'ran' if ran[-1].passed else ran[-1].reason}")
    if as_json:
        emit_json({"runs": list(map(_document, ran))})
    else:
        emit(grid(TITLES, list(map(_cells, ran)), colour()))
        for op, count in _all_ops(ran) if name == "stat" else ():
            emit(f"  {count:>6,}  {op}")
        if name == "proveout" and find(device).times == "modelled":
            note("Call ms is the simulation's own time on this machine; Device ms is modelled for the chip.")
        for one_ran in ran:
            if one_ran.reason:
                note(f"✘ {one_ran.model}: {one_ran.reason}")
    return 0 if all(one_ran.passed for one_ran in ran) else 1


TITLES = (
    "Model",
    "Backend",
    "Device",
    "Status",
    "PCC",
    "Max |Δ|",
    "Ops",
    "On host",
    "Eager ms",
    "Call ms",
    "Device ms",
)


def _cells(ran: Ran) -> tuple[object, ...]:
    from proveout.report.rows import number, pcc_text

    times = {t.what: f"{number(t.median_ns / 1e6)} {t.kind}" for t in ran.timings}
    furthest = max((c.max_abs for c in ran.comparisons if c.max_abs is not None), default=None)
    return (
        ran.model,
        ran.backend,
        ran.device,
        "✓ close" if ran.passed else "✘ failed",
        pcc_text(ran.pcc),
        number(furthest),
        sum(count for _, count in ran.ops) or None,
        ran.ops_on_host,
        times.get("eager"),
        times.get("backend"),
        times.get("device"),
    )


def _all_ops(ran: Sequence[Ran]) -> list[tuple[str, int]]:
    total: dict[str, int] = {}
    for one in ran:
        for op, count in one.ops:
            total[op] = total.get(op, 0) + count
    return sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))


def _document(ran: Ran) -> dict[str, Any]:
    from proveout.coding import to_json

    return {**to_json(ran), "passed": ran.passed, "pcc": ran.pcc, "reason": ran.reason, "ops": dict(ran.ops)}
