"""`proveout devices`: where models can run here, what a modelled chip is, and how long it would take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from proveout.cli.request import Json

Action = Annotated[
    str | None,
    typer.Argument(metavar="[show|predict]", help="Show one device, or predict a table.", show_default=False),
]
Subject = Annotated[
    str | None, typer.Argument(metavar="[NAME|TABLE]", help="The device, or a CSV file.", show_default=False)
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where the predicted table goes.", show_default=False),
]


def verb(action: Action = None, subject: Subject = None, output: Output = None, as_json: Json = False) -> int:
    """List the devices, and why one cannot be used here.

    Says of each whether its times are measured by a clock or modelled. `show NAME` tells what a chip is and how
    well its modelled times match published ones. `predict TABLE` adds predicted_ns, low_ns, high_ns and calibrated
    to a CSV table of matrix products or device operations.

    \b
    Examples:
      proveout devices --json
      proveout devices show sim:n150
      proveout devices predict ops.csv -o predicted.csv
    """
    from proveout.errors import UsageError

    if action is None:
        return _list(as_json)
    if action == "show" and subject:
        return _show(subject, as_json)
    if action == "predict" and subject:
        return _predict(Path(subject), output, as_json)
    if action in ("show", "predict"):
        what = "a device: proveout devices show sim:n150" if action == "show" else "a CSV file"
        raise UsageError(f"proveout devices {action} needs {what}.")
    raise UsageError(f"no action {action!r}. Take show or predict, or nothing for the list of devices.")


def _list(as_json: bool) -> int:
    from proveout.cli.output import colour, emit, emit_json
    from proveout.devices.registry import ALIASES, devices
    from proveout.report.terminal import grid

    found = [
        (name, [alias for alias, full in ALIASES.items() if full == name], info) for name, info in devices().items()
    ]
    if as_json:
        keys = ("available", "times", "description", "reason")
        documents = [
            {"name": name, "aliases": aliases} | {key: getattr(info, key) for key in keys}
            for name, aliases, info in found
        ]
        emit_json({"devices": documents})
        return 0
    rows = [
        (
            ", ".join([name, *aliases]),
            "yes" if info.available else "no",
            info.times,
            info.description,
            info.reason,
        )
        for name, aliases, info in found
    ]
    emit(grid(("Device", "Available", "Times", "What it is", "Reason"), rows, colour()))
    return 0


def _show(name: str, as_json: bool) -> int:
    from proveout.chip.calibration import uncalibrated
    from proveout.chip.show import backing_of, facts, rooflines
    from proveout.cli.output import colour, emit, emit_json
    from proveout.devices.registry import find
    from proveout.report.terminal import grid

    info = find(name)
    if info.spec is None:
        document: dict[str, Any] = {"name": info.name, "description": info.description, "times": info.times}
        emit_json(document) if as_json else emit(f"{info.name}: {info.description}. Times are {info.times}.")
        return 0
    chip, low_high = info.spec, uncalibrated()
    peaks, backing = rooflines(chip), backing_of(chip)
    if as_json:
        emit_json(
            {
                "name": info.name,
                "times": info.times,
                "spec": chip,
                "rooflines": peaks,
                "calibration": backing,
                "uncalibrated_interval": low_high,
            }
        )
        return 0
    lines = [
        f"{info.name}: {info.description}. Times are {info.times}.",
        grid(("Figure", "Value"), facts(chip), colour()),
    ]
    titles = ("Fidelity", "Peak TFLOP/s", "DRAM-bound below FLOP/B")
    lines.append(grid(titles, [(p["fidelity"], p["tflops"], p["ridge"]) for p in peaks], colour()))
    lines.append("Modelled times against published ones on this architecture, cross-validated over shapes:")
    table = [
        (
            b.family,
            b.mode,
            "calibrated" if b.calibrated else "uncalibrated",
            b.rows,
            f"{b.median_error:.1%}",
            f"{b.p90_error:.0%}",
            f"× {b.low:.2f} to {b.high:.2f}",
        )
        for b in backing
    ]
    lines.append(grid(("Family", "Mode", "Label", "Rows", "Median error", "90 % below", "Interval"), table, colour()))
    lines.append(
        f"Families without rows here are uncalibrated: × {low_high[0]:.2f} to {low_high[1]:.2f}. "
        "How this is found: docs/reference/calibration.md"
    )
    emit("\n".join(lines))
    return 0


def _predict(table: Path, output: Path | None, as_json: bool) -> int:
    from proveout.chip.predict import predict_table
    from proveout.cli.output import emit, emit_json, note

    found = predict_table(table)
    if found.unpredicted:
        some = "1 row has" if found.unpredicted == 1 else f"{found.unpredicted} rows have"
        note(f"{some} no prediction: no tensors, or an operation that no family covers.")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(found.text, encoding="utf-8")
    if as_json:
        emit_json(
            {
                "rows": found.rows,
                "predicted": found.rows - found.unpredicted,
                "calibrated": found.calibrated,
                "median_error": found.median_error,
                "output": str(output) if output else None,
            }
        )
    elif output is None:
        emit(found.text)
    else:
        error = (
            "" if found.median_error is None else f" Median error against the measured times: {found.median_error:.1%}."
        )
        emit(f"{found.rows - found.unpredicted} of {found.rows} rows predicted, {found.calibrated} calibrated.{error}")
    return 0
