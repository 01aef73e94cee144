"""`proveout explain`: where a model's error comes from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from proveout.cause.findings import Explained
from proveout.cli.jobs import run
from proveout.cli.output import emit, emit_json, note
from proveout.cli.request import Rebuild, SharedOptions, setting_of, takes_request
from proveout.coding import from_json, to_json
from proveout.devices.registry import describe, find, settings_for
from proveout.errors import UsageError
from proveout.report.cause.picture import picture
from proveout.report.cause.text import text
from proveout.types import Explain

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where explain.json and the pictures go.")]
Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="DEVICE|KEY=VALUE",
        help="Explain the difference from another device or setting instead of the error; may be repeated.",
        show_default=False,
    ),
]
Every = Annotated[bool, typer.Option("--every-op", help="Look into every op, also where runs of them say enough.")]


@takes_request
def verb(
    request: SharedOptions, against: Against = None, every_op: Every = False, output: Output = Path("explained")
) -> int:
    """Find where a model's numerical error comes from, op by op.

    Ops are swapped between the device's arithmetic and float32; the shares sum to the whole error.

    \b
    Examples:
      proveout explain attention.py --search-dir selftest --set numerics=faithful
      proveout explain net.py --set weights=bfloat4_b --against weights=same
      proveout explain net.py --device sim:n150 --against cuda
    """
    question = _asked(request, against or [], every_op)
    chosen = dataclasses.replace(request, rebuild=Rebuild.always)  # a Record says nothing about the files
    results = run(chosen, ("explain",), output, explain=question)
    documents, missing = [], 0
    for result in results:
        job = result.record.job
        label = f"{job.workload.name} on {job.device}"
        path = Path(job.artifacts, "explain.json")
        if not path.is_file():
            missing += 1
            note(f"{label}: {result.record.reason or 'it was not compiled'}")
            continue
        explained = from_json(Explained, json.loads(path.read_text()))
        pictures = []
        for number, graph in enumerate(explained.graphs):
            pictures.append(str(path.with_name(f"explain{number or ''}.svg")))
            Path(pictures[-1]).write_text(picture(label, graph))
        trees = [to_json(graph.tree) for graph in explained.graphs]
        documents.append(
            {
                "model": job.workload.name,
                "device": job.device,
                **to_json(explained),
                "trees": trees,
                "pictures": pictures,
            }
        )
        if not request.as_json:
            emit(text(label, explained) + "\n")
        note(f"wrote {', '.join([str(path), *pictures])}")
    if request.as_json:
        emit_json({"verb": "explain", "failed": missing, "models": documents})
    return 1 if missing else 0


def _asked(request: SharedOptions, against: list[str], every: bool) -> Explain:
    """The other side: the request's own device and settings, but for what `--against` says; of a device of another
    kind, which takes other settings, the usual ones."""
    if not against:
        return Explain(every=every)
    names = [word for word in against if "=" not in word]
    if len(names) > 1:
        raise UsageError(f"--against takes one device, not {' and '.join(names)}.")
    if "," in request.device:
        raise UsageError("--against compares one device with another; give --device one name.")
    info = find(names[0] if names else request.device)
    alike = info.target == (describe(request.device) or info).target
    own = dict(map(setting_of, request.overrides or ()))
    if request.precision is not None:
        own["precision"] = request.precision.value
    other = {**(own if alike else {}), **dict(setting_of(word) for word in against if "=" in word)}
    return Explain(info.name, settings_for(info.name, other), every)
