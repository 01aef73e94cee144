"""Every op code a sheet can have, and every corpus model's sheet (by name), in the real tt-perf-report: no line is
unclassified but by the runtime's own name."""

from __future__ import annotations

import ast
import csv
import json
import re
import subprocess
from pathlib import Path

import pytest
import zoo
from sheets import DATA, PAGE, ModelSheet, plan, read, sheets_of
from test_real_tools import NOT_IN_ITS_TABLE, tool

import proveout.kernels
from proveout import recording
from proveout.capture.scripts import corpora
from proveout.chip.device_op import DeviceOp
from proveout.chip.families import FORMS
from proveout.engine.compiled import compile
from proveout.kernels import kernels
from proveout.kernels.op_codes import op_code
from proveout.kernels.row import one_op
from proveout.report.perf.files import render_csv
from proveout.report.perf.sheet import make_sheet


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


def odd(models):
    return {m.model: names for m in models if (names := set(m.unclassified) - NOT_IN_ITS_TABLE)}


@pytest.mark.interop
@pytest.mark.slow
def test_no_line_of_a_model_s_sheet_is_unclassified_but_by_the_runtime_s_own_name(tmp_path):
    """A sample: one model of each of two corpora, compiled by the command that makes the page of all."""
    tool("tt-perf-report", "tt-perf-report")
    for corpus, script in (("selftest", "conv"), ("torchvision", "lraspp_mobilenet_v3_large")):
        plan(tmp_path / corpus, f"{script}.py", "--search-dir", corpus)
        models = read(corpus, sheets_of(tmp_path / corpus))
        assert [m.model for m in models] == [script]
        assert models[0].lines > 10
        assert odd(models) == {}


@pytest.mark.whole_corpora
@pytest.mark.interop
@pytest.mark.parametrize("corpus", sorted(corpora()))
def test_no_line_of_a_corpus_s_sheets_is_unclassified(corpus, tmp_path):
    tool("tt-perf-report", "tt-perf-report")
    plan(tmp_path, "--all", "--search-dir", corpus)
    models = read(corpus, sheets_of(tmp_path))
    assert models
    assert odd(models) == {}


def test_the_page_names_what_has_no_category_and_which_corpora_it_lacks():
    models = [ModelSheet(**row) for row in json.loads(DATA.read_text())]
    assert odd(models) == {}
    lacking = corpora().keys() - {m.corpus for m in models}
    assert all(f"`{corpus}`" in PAGE.read_text() for corpus in lacking)
    assert all(name in PAGE.read_text() for m in models for name in m.unclassified)
