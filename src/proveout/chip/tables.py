"""Tables of published times: which kind a CSV file is, and its rows as device operations on a chip.

A table is read as its source gives it. `kind_of` tells the kinds apart by their columns; `table_rows.py` has one reader
for each. What a row does not tell stays untold: the model's own rules fill it in.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from proveout.chip.device_op import DeviceOp
from proveout.chip.matmul import Product
from proveout.errors import UsageError
from proveout.types import DeviceSpec

COLUMNS: dict[str, tuple[str, ...]] = {
    "gemm": (
        "arch", "mode", "M", "K", "N", "dtype", "math_fidelity", "grid_x", "grid_y", "trace", "in0_storage",
        "out_storage",
    ),
    "op_times": ("arch", "op_code", "input0", "output0"),
    "matmul_sweeps": ("arch", "kernel", "M", "K", "N", "in0_block_w"),
    "matmul_height_sharded": ("arch", "kernel", "M", "K", "N", "cores"),
    "conv_bench": ("arch", "in_channels", "out_channels", "height", "width", "kernel"),
    "eltwise_times": ("arch", "op", "dtype", "operands", "elements"),
    "softmax_reduce_host": ("arch", "op", "dim", "shape", "dtype"),
}  # fmt: skip
"""What a table of each kind must have; the first kind whose columns are all there is it."""
SWEEPS = ("unary_exp", "matmul_height_sharded")
"""Thousands of rows of one operation from one source: they have no say in what all other forms promise."""
WORDS = {
    "gemm": "matrix products timed by the host",
    "op_times": "device operations",
    "matmul_sweeps": "matrix products with their program configs",
    "conv_bench": "convolutions",
    "eltwise_times": "element-wise calls",
}


@dataclass(frozen=True)
class GemmRow:
    """One line of a table of matrix products: host time of one call among many."""

    product: Product
    chip: DeviceSpec
    tuned: bool
    traced: bool
    ns: float | None = None
    source: str = ""

    @property
    def mode(self) -> str:
        return "tuned" if self.tuned else "out of the box"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.product.m, self.product.k, self.product.n)


@dataclass(frozen=True)
class OpRow:
    """One line of any other table: the device operations of one call, on a chip, and the time that was published."""

    op: DeviceOp
    chip: DeviceSpec
    ns: float | None = None
    recorded_arch: bool = True
    source: str = ""
    """The model it was profiled in, else the file: what is left out together when errors are found."""
    table: str = ""

    @property
    def shape(self) -> tuple[object, ...]:
        """What is held out together: the operation and its first two inputs, as the published split has it."""
        return (self.op.code, *(t.shape for t in self.op.inputs[:2]), self.op.param("called", ""))


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, as text; of a `.gz` one too."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            return list(csv.DictReader(io.StringIO(file.read().decode("utf-8-sig"), newline="")))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}. Give a CSV file with a header line.") from None


def committed(name: str) -> list[dict[str, str]]:
    """The rows of a table that comes with the product."""
    with resources.as_file(resources.files("proveout.chip") / "data" / name) as path:
        return read(path)


def kind_of(columns: Iterable[str], name: str) -> str:
    """Which of `COLUMNS` a table is."""
    present = set(columns)
    missing = {kind: [c for c in wanted if c not in present] for kind, wanted in COLUMNS.items()}
    for kind, absent in missing.items():
        if not absent:
            return kind
    kind = min(missing, key=lambda k: len(missing[k]) / len(COLUMNS[k]))
    known = "; ".join(f"a table of {words} has {', '.join(COLUMNS[k])}" for k, words in WORDS.items())
    raise UsageError(f"{name} lacks the column {missing[kind][0]}: {known}.")


def whole(row: Mapping[str, str], column: str, line: str) -> int:
    """A cell that must be a whole number of at least 1."""
    text = row.get(column) or ""
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        raise UsageError(f"{line}: {column} is {text!r}, not a whole number of at least 1.")
    return value


def told_whole(row: Mapping[str, str], column: str, line: str) -> int | None:
    """The same where it may be empty; 0 says as much as nothing."""
    text = (row.get(column) or "").strip()
    return None if text in ("", "0", "none") else whole(row, column, line)


def number(row: Mapping[str, str], column: str, line: str, scale: float = 1.0) -> float | None:
    """A measured time, or None."""
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        value = float(text) * scale
    except ValueError:
        raise UsageError(f"{line}: {column} is {text!r}, not a number.") from None
    return value if math.isfinite(value) and value > 0 else None
