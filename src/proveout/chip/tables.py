"""Tables of published times: which kind a CSV file is, and its rows as device operations on a chip.

A table is read as its source gives it. `kind_of` tells the kinds apart by their columns; `table_rows.py` has one reader
for each. What a row does not tell stays untold: the model's own rules fill it in.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from proveout.chip.device_op import DeviceOp
from proveout.chip.matmul import Product
from proveout.errors import UsageError
from proveout.types import DeviceSpec

COLUMNS: dict[str, tuple[str, ...]] = {
    "gemm": ("arch", "M", "K", "N", "dtype", "math_fidelity"),
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
    "matmul_height_sharded": "height-sharded matrix products",
    "conv_bench": "convolutions",
    "eltwise_times": "element-wise calls",
    "softmax_reduce_host": "softmax, norms and reductions",
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
class TimedRow:
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


MOST_BYTES = 1 << 28
"""Of a table, unpacked."""


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, as text; of a `.gz` one too."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise UsageError(f"{path} has more than {MOST_BYTES >> 20} MiB. Split it.")
        return list(csv.DictReader(io.StringIO(text.decode("utf-8-sig"), newline="")))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}. Give a CSV file with a header line.") from None


def committed(name: str) -> list[dict[str, str]]:
    """The rows of a table that comes with the product."""
    with resources.as_file(resources.files("proveout.chip") / "data" / name) as path:
        return read(path)


UNTOLD = frozenset({"nan", "NaN", "N/A", "n/a", "NA", "-", "none", "None", "NONE", "null"})
"""What people and programs write into a cell that tells nothing."""
SIDES = {"m": "M", "k": "K", "n": "N", "m_block": "M_block", "k_block": "K_block", "n_block": "N_block",
         "per_core_m": "per_core_M", "per_core_n": "per_core_N"}  # fmt: skip
"""Columns that are not all in small letters."""


def plain_columns(columns: Iterable[str], name: str) -> dict[str, str]:
    """Every column of a table by the name that readers know it by, whatever its case."""
    plain: dict[str, str] = {}
    for column in columns:
        small = (column or "").strip().lower()
        known = SIDES.get(small, small)
        if known in plain.values():
            raise UsageError(f"{name} has the column {known} twice. Keep one.")
        plain[column] = known
    return plain


def plain_row(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, str]:
    """A row as readers take it: columns by their names, cells that tell nothing empty."""
    return {columns[column]: "" if cell.strip() in UNTOLD else cell for column, cell in row.items()}


def kind_of(columns: Iterable[str], name: str) -> str:
    """Which of `COLUMNS` a table is."""
    present = set(columns)
    missing = {kind: [c for c in wanted if c not in present] for kind, wanted in COLUMNS.items()}
    for kind, absent in missing.items():
        if not absent:
            return kind
    nearest = min(len(absent) / len(COLUMNS[kind]) for kind, absent in missing.items())
    lacking = [absent[0] for kind, absent in missing.items() if len(absent) / len(COLUMNS[kind]) == nearest]
    known = "; ".join(f"a table of {words} has {', '.join(COLUMNS[k])}" for k, words in WORDS.items())
    raise UsageError(f"{name} lacks the column {' or '.join(dict.fromkeys(lacking))}: {known}.")


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
    """A measured time; None where there is none that can be read: a prediction does not need it."""
    try:
        value = float((row.get(column) or "").strip().replace(",", "")) * scale
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
