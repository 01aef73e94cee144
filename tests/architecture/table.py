"""How easy the house is to change, counted: `python tests/architecture/table.py` prints what was, is and shall be.

The numbers before are those of f04f8a6. "Files to touch" are those that the additions of this folder consist of, each
of which a test adds and uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import additions
from kernel_constants import count_kernel_constants
from measures import (
    MOST_PARAMETERS,
    asks_by_name,
    columns_by_text,
    late_imports,
    lines,
    shared_names,
    vague_locals,
    vague_parameters,
    wide_functions,
)


@dataclass(frozen=True)
class Measure:
    """One line of the table; reached where the count is at most `goal`."""

    what: str
    before: int
    goal: int
    count: Callable[[], int]
    missing: str = ""
    """Why it cannot be reached yet; empty where it is."""


def files(kind: str, before: int) -> Callable[[], int]:
    """The files of an addition; as many as before while no test adds one."""
    return lambda: len(getattr(additions, kind, range(before)))


COUNTED = find_spec("own_text") is not None


def own_text() -> int:
    """Regular expressions that read our own text."""
    if not COUNTED:
        return 17
    from own_text import count_own_text

    return int(count_own_text())


MEASURES = (
    Measure("files to touch for a kernel", 12, 2, files("KERNEL", 12)),
    Measure("files to touch for a device", 2, 1, files("DEVICE", 2)),
    Measure("files to touch for a report column", 6, 1, files("COLUMN", 6)),
    Measure("files to touch for a verb", 2, 1, files("VERB", 2)),
    Measure("files to touch for an ATen op", 2, 1, files("OP", 2)),
    Measure("files to touch for a fusion", 2, 1, files("FUSION", 2)),
    Measure("module constants that name kernels", 65, 19, count_kernel_constants),
    Measure("late imports of our own names", 301, 59, lambda: len(late_imports())),
    Measure("tests by a device's name", 12, 0, lambda: len(asks_by_name())),
    Measure("regular expressions over our own text", 17, 0, own_text, "" if COUNTED else "nothing counts them yet"),
    Measure("columns of a report taken by text", 215, 0, lambda: len(columns_by_text())),
    Measure(f"functions with more than {MOST_PARAMETERS} parameters", 3, 3, lambda: len(wide_functions())),
    Measure("functions with a parameter found, told …", 98, 0, lambda: len(vague_parameters())),
    Measure("names that several types share", 31, 24, lambda: len(shared_names())),
)
LINES_BEFORE, VAGUE_BEFORE = 52_114, 487
"""Of `src`, and how often names such as `found` are bound in it, for the record: no goal, since what the product can do
grows too."""


def render() -> str:
    rows = [(m.what, f"{m.before:,}", f"{m.count():,}", f"{m.goal:,}") for m in MEASURES]
    rows.append(("lines of src", f"{LINES_BEFORE:,}", f"{lines():,}", ""))
    rows.append(("names found, told … that are bound", f"{VAGUE_BEFORE:,}", f"{vague_locals():,}", ""))
    titles = ("", "before", "now", "at most")
    return "\n".join(f"{a:<40}{b:>8}{c:>8}{d:>9}" for a, b, c, d in (titles, *rows))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    print(render())
