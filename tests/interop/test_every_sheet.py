"""Every op code a sheet can have, and every corpus model's sheet (by name), in the real tt-perf-report: no line is
unclassified but by the runtime's own name.

The sheets of all corpora take an hour of processor; what one run finished, the next one does not run again while the
sources are the same, and `-k timm` takes one corpus:

    python -m pytest -m whole_corpora tests/interop
"""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zoo
from sources import digest
from test_real_tools import NOT_IN_ITS_TABLE, tool

import proveout.kernels
from proveout import recording
from proveout.capture import corpora_folder, read_labels, resolve
from proveout.chip.device_op import DeviceOp
from proveout.chip.families import FORMS
from proveout.engine.compiled import compile
from proveout.kernels import kernels
from proveout.kernels.op_codes import op_code
from proveout.kernels.row import one_op
from proveout.report.perf.files import render_csv
from proveout.report.perf.sheet import make_sheet

PROVEOUT = [sys.executable, "-c", "import sys; from proveout.cli import main; sys.exit(main())"]
SCRIPTS = {str(path.relative_to(corpora_folder())): path for path, _ in resolve([], [], all=True)}


def unclassified(sheet: Path) -> set[str]:
    """The op codes of a sheet that tt-perf-report has no category for."""
    words = [tool("tt-perf-report", "tt-perf-report"), str(sheet), "--no-color"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-500:]
    return set(re.findall(r"Unclassified operation '(\w+)'", done.stdout + done.stderr))


def codes_in_rows() -> set[str]:
    """The op codes of all device operations that the kernels' rows can name: each family's usual one, and those that a
    call of DeviceOp or one_op writes out."""
    codes = {op_code(DeviceOp(family, (), ())) for family, form in FORMS.items() if form.codes}
    for path in Path(proveout.kernels.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (DeviceOp.__name__, one_op.__name__):
                written = [k.value for k in node.keywords if k.arg == "code"]
                written += node.args[1:2] if getattr(node.func, "id", "") == one_op.__name__ else []
                texts = [c.value for part in written for c in ast.walk(part) if isinstance(c, ast.Constant)]
                codes |= {
                    op_code(DeviceOp("other", (), (), code=t)) for t in texts if isinstance(t, str) and t[:1].isupper()
                }
    return codes


@pytest.mark.interop
@pytest.mark.slow
def test_every_op_code_that_a_row_can_name_is_classified_or_listed(tmp_path):
    """One sheet with a line for each: whatever model comes, tt-perf-report has no other name to stumble over."""
    module, inputs = zoo.mnist_cnn()
    compile(module, inputs, device="sim:n150", settings={"precision": "bfloat16"}, record=tmp_path / "programs")
    (header, *lines) = csv.reader(render_csv(make_sheet("mnist", recording.load(tmp_path / "programs"))).splitlines())
    place = header.index("OP CODE")
    device = next(line for line in lines if line[place].startswith("Conv2d"))
    codes = sorted(codes_in_rows())
    with (tmp_path / "sheet.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *([*device[:place], code, *device[place + 1 :]] for code in codes)])
    assert unclassified(tmp_path / "sheet.csv") == NOT_IN_ITS_TABLE


def test_only_what_is_no_device_operation_is_named_after_its_function():
    """So no sheet has a name that we made up."""
    usual = type(kernels()["ttnn.add"]).__dataclass_fields__["device_ops"].default
    unnamed = {row.kind for row in kernels().values() if row.device_ops is usual}
    assert unnamed <= {"transfer", "free", "piece"}


@pytest.mark.whole_corpora
@pytest.mark.interop
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_no_line_of_a_sheet_is_unclassified(script, tmp_path, request):
    tool("tt-perf-report", "tt-perf-report")
    kept = request.config.cache.mkdir("sheets") / f"{digest()}-{script.parent.name}-{script.stem}.json"
    if not kept.exists():
        words = ["perf", str(script), "--small", "-o", str(tmp_path), "--cache-dir", str(tmp_path / "c")]
        environment = {**os.environ, "PROVEOUT_CACHE": str(tmp_path / "c")}
        subprocess.run([*PROVEOUT, *words], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
        sheets = {str(s.relative_to(tmp_path)): s for s in sorted(tmp_path.rglob("ops_perf_results*.csv"))}
        kept.write_text(json.dumps({name: sorted(unclassified(sheet)) for name, sheet in sheets.items()}))
    sheets = json.loads(kept.read_text())
    assert sheets or ("expect", ("fail",)) in read_labels(script)
    assert {name: odd for name, odd in sheets.items() if set(odd) - NOT_IN_ITS_TABLE} == {}
