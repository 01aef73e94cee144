"""The perf sheet's files: `performance/` and `memory/`, as tt-perf-report and ttnn-visualizer read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from proveout.coding import to_json
from proveout.errors import EnvironmentFault
from proveout.recording import Recorded
from proveout.report.perf.advice import advise
from proveout.report.perf.changes import Advice
from proveout.report.perf.sheet import Sheet, make_sheet
from proveout.report.perf.tt_csv import render_csv, render_device_log
from proveout.report.perf.view import document, render
from proveout.report.visualizer.database import write_memory
from proveout.types import Comparison


@dataclass(frozen=True)
class SheetFiles:
    """A perf sheet that lies in files, and what to print of it."""

    files: dict[str, Path]
    document: dict[str, Any]
    text: str


def produce(
    name: str,
    recorded: Sequence[Recorded],
    folder: Path,
    when: datetime,
    comparisons: Sequence[Comparison],
    num_breaks: int = 0,
    colour: bool = False,
) -> SheetFiles:
    """The sheet of what was recorded, with advice: written, as JSON and as text."""
    sheet, advice = make_sheet(name, recorded, num_breaks), advise(recorded)
    files = write(sheet, advice, folder, when, comparisons)
    return SheetFiles(files, document(sheet, advice), render(sheet, advice, colour=colour))


STAMP = "%Y_%m_%d_%H_%M_%S"


def write(
    sheet: Sheet, advice: Sequence[Advice], folder: Path, when: datetime, comparisons: Sequence[Comparison] = ()
) -> dict[str, Path]:
    """Leave `performance/<time>/`, `memory/<name>/` and `perf.json` in a folder; gives the path of each."""
    stamp = when.strftime(STAMP)
    performance = folder / "performance" / stamp
    table = performance / f"ops_perf_results_{stamp}.csv"
    whole = folder / "perf.json"
    try:
        performance.mkdir(parents=True, exist_ok=True)
        table.write_text(render_csv(sheet))
        (performance / "profile_log_device.csv").write_text(render_device_log(sheet))
        memory = write_memory(sheet, folder / "memory" / sheet.name, int(when.timestamp() * 1e9), comparisons).parent
        whole.write_text(json.dumps(to_json(document(sheet, advice)), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise EnvironmentFault(f"cannot write to {folder}: {error.strerror}. Choose another with -o DIR.") from error
    return {"csv": table, "performance": performance, "memory": memory, "sheet": whole}
