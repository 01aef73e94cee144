"""`proveout devices`: where models can run here, what a modelled chip is, and how long it would take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proveout.chip.calibration import parameters, uncalibrated
from proveout.chip.predict import predict_table
from proveout.chip.show import backing_of, facts, fitted, rooflines
from proveout.cli.options import Json
from proveout.cli.output import colour, emit, emit_json, note
from proveout.coding import to_json
from proveout.devices.registry import device_names, devices, find
from proveout.errors import UsageError
from proveout.report.tables.terminal import grid
from proveout.words import counted

if TYPE_CHECKING:
    from proveout.kernels.arithmetic.vectors import Finding

Action = Annotated[
    str | None,
    typer.Argument(
        metavar="[show|predict|numerics|fingerprint]",
        help="Show one device, predict a table, check numbers, or probe a device's arithmetic.",
        show_default=False,
    ),
]
Subjects = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME|FILE…]", help="The device, a CSV file, or vector files.", show_default=False),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Where the predicted table goes.", show_default=False),
]


def verb(action: Action = None, subjects: Subjects = None, output: Output = None, as_json: Json = False) -> int:
    """List the devices, and why one cannot be used here.

    Says of each whether its times are measured by a clock or modelled, or that it has none, as nothing is computed.
    `show NAME` tells what a chip is and how well its modelled times match published ones. `predict TABLE` adds
    predicted_ns, low_ns, high_ns and calibrated to a CSV table of matrix products, device operations, convolutions
    or element-wise calls. `numerics FILE …` puts numbers that a chip or its simulator computed to the modelled
    chip's arithmetic and ends with 1 if a bit differs. `fingerprint NAME` finds from outside how a device adds
    products: width, order, rounding, special values.

    \b
    Examples:
      proveout devices --json
      proveout devices show sim:n150
      proveout devices predict ops.csv -o predicted.csv
      proveout devices numerics tests/data/ttsim/*.npz
      proveout devices fingerprint sim
    """
    if action is None:
        return _list(as_json)
    if not subjects and action in device_names(devices()):
        action, subjects = "show", [action]
    if action not in NEEDS:
        raise UsageError(f"no action {action!r}. Take {', '.join(NEEDS)}, or nothing for the list of devices.")
    if not subjects or (len(subjects) > 1 and action != "numerics"):
        raise UsageError(f"proveout devices {action} needs {NEEDS[action]}.")
    if action == "show":
        return _show(subjects[0], as_json)
    if action == "predict":
        return _predict(Path(subjects[0]), output, as_json)
    if action == "fingerprint":
        return _fingerprint(subjects[0], as_json)
    return _numerics([Path(s) for s in subjects], as_json)


NEEDS = {
    "show": "a device: proveout devices show sim:n150",
    "predict": "a CSV file",
    "numerics": "vector files: proveout devices numerics FILE.npz",
    "fingerprint": "a device: proveout devices fingerprint sim",
}


def _list(as_json: bool) -> int:
    listed = [(name, [info.alias] if info.alias else [], info) for name, info in devices().items()]
    if as_json:
        keys = ("available", "times", "description", "reason")
        documents = [
            {"name": name, "aliases": aliases} | {key: getattr(info, key) for key in keys}
            for name, aliases, info in listed
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
        for name, aliases, info in listed
    ]
    emit(grid(("Device", "Available", "Times", "What it is", "Reason"), rows, colour()))
    return 0


def _show(name: str, as_json: bool) -> int:
    info = find(name)
    if info.spec is None:
        document: dict[str, Any] = {"name": info.name, "description": info.description, "times": info.times}
        emit_json(document) if as_json else emit(f"{info.name}: {info.description}. {info.times_words}.")
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
                "parameters": parameters(chip.arch),
                "uncalibrated_interval": low_high,
            }
        )
        return 0
    lines = [
        f"{info.name}: {info.description}. {info.times_words}.",
        grid(("Figure", "Value"), facts(chip), colour()),
    ]
    titles = ("Fidelity", "Peak TFLOP/s", "DRAM-bound below FLOP/B")
    lines.append(grid(titles, [(p["fidelity"], p["tflops"], p["ridge"]) for p in peaks], colour()))
    lines.append("Modelled times against published ones on this architecture, for shapes and for sources never seen:")
    table = [
        (
            b.family,
            b.mode,
            "calibrated" if b.calibrated else "uncalibrated",
            b.rows,
            b.sources,
            f"{b.median_error:.1%}",
            f"{b.source_median_error:.1%}" if b.sources > 1 else "",
            f"× {b.low:.2f} to {b.high:.2f}",
            f"{b.source_cover if b.sources > 1 else b.cover:.0%}",
        )
        for b in backing
    ]
    heads = ("Family", "Timed", "Label", "Rows", "Sources", "New shapes", "New sources", "Interval", "Held for")
    lines.append(grid(heads, table, colour()))
    lines.append("The parameters, with one standard deviation (a factor; × ÷ 2.7 is only a guess):")
    lines.append(grid(("Family", "Parameter", "Value", "× ÷", "Unit", "What it is"), fitted(chip), colour()))
    lines.append(
        f"Families without rows here are uncalibrated: × {low_high[0]:.2f} to {low_high[1]:.2f}. "
        "How this is found: docs/reference/calibration.md"
    )
    emit("\n".join(lines))
    return 0


TOLD_ROWS = 10
"""Rows that could not be read of which each is told."""


def _predict(table: Path, output: Path | None, as_json: bool) -> int:
    predictions = predict_table(table)
    empty = predictions.unpredicted - len(predictions.unreadable)
    if empty:
        note(f"{'1 row has' if empty == 1 else f'{empty} rows have'} no prediction: no tensors to predict from.")
    for sentence in predictions.unreadable[:TOLD_ROWS]:
        note(sentence)
    if len(predictions.unreadable) > TOLD_ROWS:
        note(f"{len(predictions.unreadable) - TOLD_ROWS} more rows could not be read.")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(predictions.text, encoding="utf-8")
    if as_json:
        emit_json(
            {
                "rows": predictions.rows,
                "predicted": predictions.rows - predictions.unpredicted,
                "unreadable": predictions.unreadable,
                "calibrated": predictions.calibrated,
                "median_error": predictions.median_error,
                "output": str(output) if output else None,
            }
        )
    elif output is None:
        emit(predictions.text)
    else:
        error = (
            ""
            if predictions.median_error is None
            else f" Median error against the measured times: {predictions.median_error:.1%}."
        )
        num_predicted = predictions.rows - predictions.unpredicted
        emit(f"{num_predicted} of {predictions.rows} rows predicted, {predictions.calibrated} calibrated.{error}")
    return 0


def _numerics(files: list[Path], as_json: bool) -> int:
    from proveout.kernels.arithmetic.vectors import check_file

    findings: list[Finding] = []
    refused: list[str] = []
    for file in files:
        try:
            findings += check_file(file)
        except UsageError as e:  # the other files are judged all the same
            refused.append(str(e))
    if refused and not findings:
        raise UsageError(" ".join(refused))
    equal, total = sum(f.equal for f in findings), sum(f.total for f in findings)
    if as_json:
        emit_json({"equal": equal, "total": total, "cases": [to_json(f) for f in findings], "refused": refused})
    else:
        emit(grid(NUMERICS_TITLES, [_numerics_row(f) for f in findings], colour()))
        emit(_numerics_summary(findings, len(files), refused))
    return 1 if equal != total else UsageError.exit_code if refused else 0


NUMERICS_TITLES = ("File", "Case", "Kind", "Setting", "Chip", "Equal", "First difference: where, ours, theirs")


def _numerics_row(f: Finding) -> tuple[str, ...]:
    if f.unjudged is not None:
        return f.file, f.case, f.kind, f.setting, "", "not judged", f.unjudged
    return f.file, f.case, f.kind, f.setting, f.arch or "", f"{f.equal / max(f.total, 1):.4%}", f.first or ""


def _numerics_summary(findings: list[Finding], num_files: int, refused: list[str]) -> str:
    judged = [f for f in findings if f.unjudged is None]
    wrong = sum(f.first is not None for f in judged)
    end = "all equal in every bit" if not wrong else f"{wrong} of them differ"
    numbers = counted(sum(f.total for f in judged), "number")
    lines = [f"{counted(len(judged), 'result')} of {counted(num_files, 'file')}, {numbers}: {end}."]
    if len(judged) < len(findings):
        lines.append(f"{counted(len(findings) - len(judged), 'array')} could not be judged: the table says why.")
    return "\n".join([*lines, *refused])


def _fingerprint(name: str, as_json: bool) -> int:
    from proveout.check.fingerprint import fingerprints

    prints = list(fingerprints(name))
    if as_json:
        emit_json({"fingerprints": [to_json(f) | {"verdict": f.verdict} for f in prints]})
        return 0
    for each in prints:
        rows = [(key.replace("_", " "), str(value)) for key, value in to_json(each).items()]
        emit(grid(("Probe", "Found"), [*rows, ("looks like", each.verdict)], colour()))
    return 0
