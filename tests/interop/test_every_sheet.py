"""Every corpus model's sheet in the real tt-perf-report: no line is unclassified but by the runtime's own name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_real_tools import NOT_IN_ITS_TABLE, tool

ROOT = Path(__file__).parents[2]
CORPORA = sorted(p.name for p in (ROOT / "corpora").iterdir() if p.is_dir() and any(p.glob("*.py")))
PROVEOUT = [sys.executable, "-c", "import sys; from proveout.cli import main; sys.exit(main())"]


def unclassified(folder: Path) -> dict[str, set[str]]:
    """What tt-perf-report has no category for, by the sheet's folder; also what it does not read."""
    found = {}
    for sheet in sorted(folder.rglob("ops_perf_results*.csv")):
        words = [tool("tt-perf-report", "tt-perf-report"), str(sheet), "--no-color"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        odd = set(re.findall(r"Unclassified operation '(\w+)'", done.stdout + done.stderr))
        found[str(sheet.relative_to(folder))] = odd if done.returncode == 0 else {done.stderr[-300:]}
    return found


@pytest.mark.whole_corpora
@pytest.mark.interop
@pytest.mark.parametrize("corpus", CORPORA)
def test_no_line_of_a_sheet_is_unclassified(corpus, tmp_path):
    words = [
        "perf",
        "--all",
        "--search-dir",
        str(ROOT / "corpora" / corpus),
        "--small",
        "-o",
        str(tmp_path),
        "--cache-dir",
        str(tmp_path / "c"),
    ]
    subprocess.run([*PROVEOUT, *words], cwd=tmp_path, env={**os.environ, "PROVEOUT_CACHE": str(tmp_path / "c")})
    found = unclassified(tmp_path)
    assert found
    assert {name: odd - NOT_IN_ITS_TABLE for name, odd in found.items() if odd - NOT_IN_ITS_TABLE} == {}
