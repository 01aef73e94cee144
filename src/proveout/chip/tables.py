"""Reads tables of published times: rows with the columns of `data/gemm.csv` or `data/op_times.csv`."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from proveout.chip.device_op import MATRIX, POOL, DeviceOp, Work, rows
from proveout.chip.families import CODES
from proveout.chip.fidelity import PHASES
from proveout.chip.matmul import Product
from proveout.chip.specs import CHIPS
from proveout.errors import UsageError
from proveout.types import TILE, Buffer, DeviceSpec, Layout, Memory, Sharding, TensorSpec

GEMM_COLUMNS = (
    "arch", "mode", "M", "K", "N", "dtype", "math_fidelity", "grid_x", "grid_y", "trace", "in0_storage", "out_storage"
)  # fmt: skip
OP_COLUMNS = ("arch", "device", "op_code", "input0", "output0", "math_fidelity", "core_count")

ARCHES = {"wormhole": "n150", "wormhole_b0": "n150", "blackhole": "p150", "?": "p150"}
"""Chips by the word in the `arch` column. `?` are the rows whose source does not say: those that repeat a Blackhole
row's op, shapes and cores also repeat its time, so they are taken for Blackhole."""
GRIDS = {20: (5, 4), 64: (8, 8), 110: (11, 10), 130: (13, 10)}
"""Core grids by the number of cores that the `device` column tells."""
UNRECORDED_CORES = 20
USUAL_WINDOW = 9
"""Tables do not say the window of a pool: 3 × 3, or everything where one row comes out."""

DTYPES = {
    "BFLOAT16": "bfloat16",
    "BFLOAT8_B": "bfloat8_b",
    "BFLOAT4_B": "bfloat4_b",
    "FLOAT32": "float32",
    "UINT32": "uint32",
    "INT32": "int32",
    "UINT16": "uint16",
    "UINT8": "uint8",
}
PRODUCT_DTYPES = ("bfloat16", "bfloat8_b", "bfloat4_b", "float32")
LAYOUTS: dict[str, Layout] = {"TILE": "tile", "ROW_MAJOR": "row_major"}
SHARDINGS: dict[str, Sharding] = {"INTERLEAVED": "interleaved", "HEIGHT": "height", "WIDTH": "width", "BLOCK": "block"}


@dataclass(frozen=True)
class GemmRow:
    """One line of a table of matrix products: host time of one call among many."""

    product: Product
    chip: DeviceSpec
    tuned: bool
    traced: bool
    ns: float | None = None

    @property
    def mode(self) -> str:
        return "tuned" if self.tuned else "out of the box"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.product.m, self.product.k, self.product.n)


@dataclass(frozen=True)
class OpRow:
    """One line of a table of device operations: kernel time."""

    op: DeviceOp
    chip: DeviceSpec
    ns: float | None = None
    recorded_arch: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.op.first.shape, 0, *self.op.out.shape)


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, as text."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}. Give a CSV file with a header line.") from None


def committed(name: str) -> list[dict[str, str]]:
    """The rows of a table that comes with the product."""
    with resources.as_file(resources.files("proveout.chip") / "data" / name) as path:
        return read(path)


def kind_of(columns: Iterable[str], name: str) -> str:
    """`gemm` or `op_times`, by the columns."""
    present = set(columns)
    missing = {
        kind: [c for c in wanted if c not in present]
        for kind, wanted in (("gemm", GEMM_COLUMNS), ("op_times", OP_COLUMNS))
    }
    for kind, absent in missing.items():
        if not absent:
            return kind
    kind = min(missing, key=lambda k: len(missing[k]) / len(GEMM_COLUMNS if k == "gemm" else OP_COLUMNS))
    raise UsageError(
        f"{name} lacks the column {missing[kind][0]}: a table of matrix products has {', '.join(GEMM_COLUMNS)}; "
        f"a table of device operations has {', '.join(OP_COLUMNS)}."
    )


def gemm_row(row: Mapping[str, str], line: str) -> GemmRow:
    chip = _chip(row, line)
    grid = (_whole(row, "grid_x", line), _whole(row, "grid_y", line))
    m, k, n = (-(-_whole(row, c, line) // TILE) for c in "MKN")
    dtype = row["dtype"].lower()
    if dtype not in PRODUCT_DTYPES:
        raise UsageError(f"{line}: no dtype {row['dtype']!r}. Take one of {', '.join(PRODUCT_DTYPES)}.")
    mode = row["mode"].strip().lower()
    if mode not in ("oob", "tuned"):
        raise UsageError(f"{line}: no mode {row['mode']!r}. Take oob or tuned.")
    in0_l1, out_l1 = (row[c].strip().upper() == "L1" for c in ("in0_storage", "out_storage"))
    product = Product(
        m, k, n, 1, dtype, dtype, dtype, PHASES[_fidelity(row, line)], in0_l1, False, out_l1, sharded=in0_l1
    )
    traced = row["trace"].strip().lower() in ("true", "1", "yes")
    return GemmRow(product, replace(chip, grid=grid), mode == "tuned", traced, _number(row, "time_ns", line))


def op_row(row: Mapping[str, str], line: str) -> OpRow | None:
    """None where the row has no tensors or an operation that no family covers: nothing to predict from."""
    chip = _chip(row, line)
    code = row["op_code"].strip().replace("DeviceOperation", "")
    family = CODES.get(code)
    if family is None or not row["input0"].strip() or not row["output0"].strip():
        return None
    try:
        inputs = tuple(tensor(row[c], line) for c in ("input0", "input1", "input2") if row.get(c, "").strip())
        out = tensor(row["output0"], line)
    except NotModelled:
        return None
    cores = _whole(row, "core_count", line) if row["core_count"].strip() else None
    work, fidelity = Work(), _fidelity(row, line) if row["math_fidelity"].strip() else "HiFi4"
    if family in ("matmul", "conv"):
        if len(inputs) < 2:
            return None
        depth = inputs[0].shape[-1] if family == "matmul" else inputs[1].shape[-2]
        size_out = math.prod(out.padded_shape if family == "matmul" else out.shape)
        work = Work(2.0 * depth * size_out, MATRIX, phased=True)
    if family == "pool":
        window = rows(inputs[0]) if rows(out) == 1 else USUAL_WINDOW
        work = Work(float(window * out.numel), POOL)
    if family in ("unary", "copy", "untilize", "untilize with unpadding"):
        inputs = inputs[:1]  # the profiler lists the preallocated output among the inputs
    if family == "binary":
        inputs = inputs[:2]
    op = DeviceOp(family, inputs, (out,), work, fidelity, cores)
    return OpRow(op, chip, _number(row, "kernel_ns_median", line), row["arch"].strip() != "?")


class NotModelled(Exception):
    """A tensor whose placement the time model does not know."""


def tensor(text: str, line: str) -> TensorSpec:
    """`1x1x32x64:TILE:BFLOAT16:DRAM_INTERLEAVED` as a TensorSpec."""
    parts = text.strip().split(":")
    try:
        size, layout, dtype, place = parts
        shape = tuple(int(n) for n in size.split("x"))
        buffer, _, sharding = place.partition("_")
        kind = sharding.removesuffix("_SHARDED")
        if kind == "ND":
            raise NotModelled(text)
        where: Buffer = {"DRAM": "dram", "L1": "l1"}[buffer]  # type: ignore[assignment]
        return TensorSpec(shape, DTYPES[dtype], LAYOUTS[layout], Memory(where, SHARDINGS[kind]))
    except (ValueError, KeyError):
        raise UsageError(
            f"{line}: cannot read the tensor {text!r}. Write it as 1x1x32x64:TILE:BFLOAT16:DRAM_INTERLEAVED."
        ) from None


def _chip(row: Mapping[str, str], line: str) -> DeviceSpec:
    """The chip that the `device` column names, else the architecture's; with the cores that were in use."""
    arch = row["arch"].strip().lower()
    if arch not in ARCHES:
        raise UsageError(f"{line}: no arch {row['arch']!r}. Take wormhole or blackhole.")
    chip, device = CHIPS[ARCHES[arch]], row.get("device") or ""
    chip = next((c for name, c in CHIPS.items() if name in device and c.arch == chip.arch), chip)
    told = re.search(r"(\d+)[ -]core", device)
    cores = UNRECORDED_CORES if arch == "?" else int(told[1]) if told else chip.cores
    return replace(chip, grid=GRIDS.get(cores, chip.grid))


def _fidelity(row: Mapping[str, str], line: str) -> str:
    found = row["math_fidelity"].strip()
    if found not in PHASES:
        raise UsageError(f"{line}: no math_fidelity {found!r}. Take one of {', '.join(PHASES)}.")
    return found


def _whole(row: Mapping[str, str], column: str, line: str) -> int:
    try:
        value = int(float(row[column]))
    except (TypeError, ValueError):
        value = 0
    if value < 1:
        raise UsageError(f"{line}: {column} is {row[column]!r}, not a whole number of at least 1.")
    return value


def _number(row: Mapping[str, str], column: str, line: str) -> float | None:
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{line}: {column} is {text!r}, not a number.") from None
    return value if math.isfinite(value) and value > 0 else None
