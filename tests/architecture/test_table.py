"""The table of measures holds; `pytest -s` prints it."""

from __future__ import annotations

from pathlib import Path

import pytest
from measures import (
    asks_by_name,
    columns_by_text,
    late_imports,
    shared_names,
    vague_locals,
    vague_parameters,
    wide_functions,
)
from table import MEASURES, Measure, render


@pytest.mark.parametrize(
    "measure",
    [
        pytest.param(m, id=m.what, marks=[pytest.mark.xfail(reason=m.missing, strict=True)] if m.missing else [])
        for m in MEASURES
    ],
)
def test_a_measure_is_reached(measure: Measure) -> None:
    assert measure.count() <= measure.goal


def test_the_table_is_printed() -> None:
    text = render()
    print(f"\n{text}")
    assert all(m.what in text for m in MEASURES)


def test_a_column_taken_by_text_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('def f(flat, e, xs): return flat["pcc"], e.row["model"], flat.pcc, xs["a"]')
    assert columns_by_text(tmp_path) == ["one.py:1 pcc", "one.py:1 model"]


def test_a_function_of_many_parameters_is_found_unless_others_set_them(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(13)]
    text = f"def wide({', '.join(names)}): ...\ndef narrow({', '.join(names[:12])}): ...\n"
    for name in ("one.py", "compat/two.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert wide_functions(tmp_path) == ["one.py:1 wide"]


def test_a_name_that_two_types_share_is_found_unless_others_gave_it(tmp_path: Path) -> None:
    for name, types in (("one.py", "Run Cut _Own"), ("two.py", "Run _Own"), ("compat/three.py", "Cut")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(f"class {word}: ...\n" for word in types.split()))
    assert shared_names(tmp_path) == {"Run": ["one.py", "two.py"]}


def test_what_is_imported_late_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from proveout.types import Job\n"
        "def f():\n"
        "    import torch\n"
        "    if True:\n"
        "        from proveout.types import Record, Timing\n"
    )
    assert late_imports(tmp_path) == ["one.py:7 Record", "one.py:7 Timing"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('if device == "cpu":', True),
        ('if job.device.startswith("sim"):', True),
        ('if request.device not in ("sim", "cpu"):', True),
        ('if find(device).target == "ttnn":', False),
        ('open_device("sim")', False),
    ],
)
def test_a_test_by_name_is_found(tmp_path: Path, line: str, found: bool) -> None:
    (tmp_path / "one.py").write_text(f"{line}\n    pass\n" if line.endswith(":") else line)
    assert bool(asks_by_name(tmp_path)) == found


def test_a_name_that_says_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "def f(found, x):\n    made = x\n    return lambda told: made\ndef g(model): ...\n"
    )
    assert vague_parameters(tmp_path) == ["one.py:1 f"]
    assert vague_locals(tmp_path) == 1
