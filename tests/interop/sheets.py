"""Every corpus model's own perf sheet in the real tt-perf-report: which of its lines have no category there.

python tests/interop/sheets.py                       all corpora, compiled at reduced size: 40 minutes of processor
python tests/interop/sheets.py timm torchvision      some of them; the page keeps the rows of the others
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from proveout.capture.scripts import corpora
from proveout.devices.registry import find
from proveout.program import Program
from proveout.recording import Recorded
from proveout.report.perf.files import render_csv
from proveout.report.perf.sheet import make_sheet
from proveout.types import Settings

ROOT = Path(__file__).parents[2]
TOOL = ROOT / ".venv-interop" / "tt-perf-report"
PAGE, DATA = ROOT / "docs/reference/sheets.md", ROOT / "docs/reference/data/sheets.json"
DEVICE = "sim:n150"
PROVEOUT = [sys.executable, "-c", "import sys; from proveout.cli import main; sys.exit(main())"]
READ = """
import contextlib, io, json, re, sys
from tt_perf_report import perf_report
for path in map(str.strip, sys.stdin):
    perf_report._UNCLASSIFIED_OPS_WARNED.clear()
    sys.argv = ["tt-perf-report", path, "--no-color"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        perf_report.main()
    print(json.dumps([path, sorted(set(re.findall(r"Unclassified operation '(\\w+)'", out.getvalue())))]), flush=True)
"""
"""The tool's own entry point, once for each sheet that is named to it."""


@dataclass(frozen=True)
class ModelSheet:
    """One model's sheet: its lines, and the op codes among them that the tool has no category for."""

    corpus: str
    model: str
    lines: int
    unclassified: dict[str, int]
    day: str
    """When it was made and read."""


def plan(folder: Path, *scripts: str) -> None:
    """The Programs of some scripts' models, compiled at reduced size and not run."""
    words = ["compile", "--dry-run", "--small", "--weights", "random", "--device", DEVICE, "-o", str(folder)]
    with tempfile.TemporaryDirectory() as cache:
        command = [*PROVEOUT, *words, "--cache-dir", cache, *scripts]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def sheets_of(folder: Path) -> dict[str, str]:
    """The CSV of each model below a folder of Programs."""
    chip, settings = find(DEVICE).spec, Settings(precision="bfloat16")
    sheets = {}
    for model in sorted(p for p in folder.iterdir() if p.is_dir()):
        paths = sorted(path.parent for path in model.rglob("program.json"))
        recorded = [Recorded(DEVICE, chip, settings, Program.load(path)) for path in paths]
        if any(not step.on_host for one in recorded for step in one.program.body):
            sheets[model.name] = render_csv(make_sheet(model.name, recorded))
    return sheets


def read(corpus: str, sheets: dict[str, str]) -> list[ModelSheet]:
    """What the real tt-perf-report says of each sheet."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, text in sheets.items():
            (folder / f"{model}.csv").write_text(text)
        paths = "\n".join(str(folder / f"{model}.csv") for model in sheets)
        command = [str(TOOL / "bin" / "python"), "-c", READ]
        done = subprocess.run(command, input=paths, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(sheets), f"after {len(answers)} of {len(sheets)} sheets: {done.stderr[-500:]}"
    return [_model(corpus, model, text, set(names)) for (model, text), (_, names) in zip(sheets.items(), answers)]


def _model(corpus: str, model: str, text: str, names: set[str]) -> ModelSheet:
    codes = [row["OP CODE"].split()[0] for row in csv.DictReader(io.StringIO(text))]
    name = model.rsplit("-", 3)[0]  # without its selector and its device
    day = datetime.now(UTC).date().isoformat()
    return ModelSheet(corpus, name, len(codes), dict(Counter(code for code in codes if code in names)), day)


def page(models: Iterable[ModelSheet]) -> str:
    """A row for each corpus, then the models with lines that have no category."""
    models = list(models)
    rows = []
    for corpus in sorted({m.corpus for m in models}):
        own = [m for m in models if m.corpus == corpus]
        names: Counter[str] = sum((Counter(m.unclassified) for m in own), Counter())
        clean = sum(not m.unclassified for m in own)
        day = min(m.day for m in own)
        rows.append(f"| {corpus} | {len(own)} | {sum(m.lines for m in own):,} | {clean} | {_counts(names)} | {day} |")
    odd = [m for m in models if m.unclassified]
    lacking = sorted(corpora().keys() - {m.corpus for m in models})
    missing = [f"Not read yet: {', '.join(f'`{corpus}`' for corpus in lacking)}.", ""] if lacking else []
    lines = [f"- {m.corpus}/{m.model}: " + _counts(m.unclassified) for m in odd]
    whole = sum(m.lines for m in models)
    counts = f"{len(models)} sheets, {whole:,} lines; {len(models) - len(odd)} sheets have no unclassified line."
    return "\n".join([INTRODUCTION, counts, "", *missing, *TITLES, *rows, "", *LISTED, *lines, ""])


INTRODUCTION = f"""# Every model's sheet in tt-perf-report

`python tests/interop/sheets.py` compiles the corpora's models at reduced size for `{DEVICE}`, makes each one's sheet
from its Programs, and hands it to the real tt-perf-report 1.4.1, which reads every one. A line that it has no category
for carries the name that tt-metal's own runtime gives the operation, so that a chip's own sheet has it, too. Each
corpus has its day; sheets made before 2026-11-19 are of Programs with ttnn's own placements (`products=default`,
`sharding=interleaved`). What `proveout generate` compiles is not among them: prompts that fill a cache add
`UpdateKVCacheOperation` or, in pages, `PagedFillCacheDeviceOperation`, which have no category either.
`tests/interop/test_real_tools.py` lists every such name that a kernel of ours can have.
"""
TITLES = (
    "| corpus | sheets | lines | without an unclassified line "
    "| lines without a category, by the runtime's name | made on |",
    "|---|---:|---:|---:|---|---|",
)
LISTED = ("## Models with such lines", "")


def _counts(names: dict[str, int]) -> str:
    return ", ".join(f"`{name}` {count:,}" for name, count in sorted(names.items())) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="*")
    parser.add_argument("--programs", type=Path, help="where `plan` left the Programs of each corpus, to read those")
    options = parser.parse_args()
    chosen = options.corpora or sorted(corpora())
    kept = json.loads(DATA.read_text()) if DATA.exists() else []
    models = [ModelSheet(**m) for m in kept if m["corpus"] not in chosen]
    for corpus in chosen:
        with tempfile.TemporaryDirectory() as name:
            folder = (options.programs or Path(name)) / corpus
            if not options.programs:
                plan(folder, "--all", "--search-dir", corpus)
            models += read(corpus, sheets_of(folder))
        print(f"{corpus}: {sum(m.corpus == corpus for m in models)} sheets", flush=True)
    models.sort(key=lambda m: (m.corpus, m.model))
    DATA.write_text(json.dumps([asdict(m) for m in models], indent=1) + "\n")
    PAGE.write_text(page(models))


if __name__ == "__main__":
    main()
