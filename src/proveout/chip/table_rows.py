"""One reader for each kind of table: a row of text as the device operations it ran, everything it tells included."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proveout.chip import profile_text
from proveout.chip.device_op import MATRIX, POOL, DeviceOp, Work, rows
from proveout.chip.families import CODES, KIN, MATMUL
from proveout.chip.fidelity import PHASES
from proveout.chip.matmul import Product
from proveout.chip.profile_text import ConfigKind, ProductConfig
from proveout.chip.sfpu import arity
from proveout.chip.table_cells import (
    GRIDS,
    LAYOUTS,
    Row,
    arch_of,
    chip_of,
    dtype_of,
    fidelity_of,
    place,
    product_dtype,
    sharded_as,
    source_of,
    tensor,
)
from proveout.chip.tables import GemmRow, TimedRow, number, told_whole, whole
from proveout.errors import UsageError
from proveout.types import DRAM, TILE, Memory, Sharding, ShardSpec, TensorSpec

UNTOLD_EXP_CORES = 56
"""Of the table of `exp` alone: its times step up at every 56 tiles a core."""
UNTOLD_FIDELITY = {"float32": "HiFi4", "bfloat16": "HiFi2", "bfloat8_b": "HiFi2", "bfloat4_b": "LoFi"}
"""What a product of each data type is taken to run at where a row does not tell."""
USUAL_WINDOW = 9
"""Tables do not say the window of a pool: 3 × 3, or everything where one row comes out."""


def gemm_row(row: Row, line: str) -> GemmRow:
    """Where a row does not tell: ttnn's own config, on all cores, from DRAM to DRAM, in a trace."""
    chip = chip_of(row, line)
    grid = (told_whole(row, "grid_x", line) or chip.grid[0], told_whole(row, "grid_y", line) or chip.grid[1])
    m, k, n = (-(-whole(row, c, line) // TILE) for c in "MKN")
    dtype = product_dtype(row["dtype"], line)
    mode = (row.get("mode") or "oob").strip().lower()
    if mode not in ("oob", "tuned"):
        raise UsageError(f"{line}: no mode {row['mode']!r}. Take oob or tuned.")
    in0_l1, out_l1 = ((row.get(c) or "").strip().upper() == "L1" for c in ("in0_storage", "out_storage"))
    product = Product(
        m,
        k,
        n,
        1,
        dtype,
        dtype,
        dtype,
        PHASES[fidelity_of(row, line, UNTOLD_FIDELITY[dtype])],
        in0_l1,
        False,
        out_l1,
        sharded=in0_l1,
    )
    traced = (row.get("trace") or "true").strip().lower() in ("true", "1", "yes")
    ns = number(row, "time_ns", line)
    return GemmRow(product, replace(chip, grid=grid), mode == "tuned", traced, ns, row.get("source", ""))


def op_row(row: Row, line: str) -> TimedRow | None:
    """One profiled device operation. None where the row has no tensors, or a product only one: nothing to predict
    from. An operation that no family knows is one of the family `other`."""
    chip = chip_of(row, line)
    code = code_of(row["op_code"])
    if not (row.get("input0") or "").strip() or not (row.get("output0") or "").strip():
        return None
    texts = [row[c] for c in ("input0", "input1", "input2") if (row.get(c) or "").strip()]
    inputs = tuple(tensor(t, line) for t in (*texts, *(row.get("more_inputs") or "").split()))
    out = sharded_as(tensor(row["output0"], line), profile_text.shape(row.get("out_shard") or ""))
    family = CODES.get(code) or KIN.get(code, "other")
    fidelity = fidelity_of(row, line, "HiFi4")
    work = Work()
    if family in (MATMUL, "conv"):
        if len(inputs) < 2:
            return None
        depth = inputs[0].shape[-1] if family == MATMUL else inputs[1].shape[-2]
        size_out = math.prod(out.padded_shape if family == MATMUL else out.shape)
        work = Work(2.0 * depth * size_out, MATRIX, phased=True)
    if family == "pool":
        window = rows(inputs[0]) if rows(out) == 1 else USUAL_WINDOW
        work = Work(float(window * out.numel), POOL)
    if family in ("unary", "copy", "untilize", "untilize with unpadding"):
        inputs = inputs[:1]  # the profiler lists the preallocated output among the inputs
    attributes = row.get("attributes") or ""
    cells: dict[str, Any] = {
        "attributes": attributes,
        "type": (row.get("op_type") or "").upper(),
        "fused": profile_text.fused(row.get("fused") or ""),
        "fp32": (row.get("fp32_dst") or "") in ("1", "True", "true"),
        "config": profile_text.product_config(row.get("program_config") or "") or _minimal(attributes),
        "program": row.get("program_config") or "",
        "logical_in": profile_text.shape(row.get("logical_in0") or ""),
        "logical_out": profile_text.shape(row.get("logical_out") or ""),
    }
    params = tuple((name, value) for name, value in cells.items() if value)
    op = DeviceOp(family, inputs, (out,), work, fidelity, told_whole(row, "core_count", line), code, params)
    if code == "Unary" and "available_cores" not in row and op.cores is None and op.param("type") == "EXP":
        op, chip = replace(op, params=(*params, ("stack", "2025"))), replace(chip, grid=GRIDS[UNTOLD_EXP_CORES])
    return TimedRow(op, chip, number(row, "kernel_ns_median", line), arch_of(row) != "?", source_of(row), "op_times")


@functools.lru_cache(maxsize=4096)
def code_of(text: str) -> str:
    """The name of a device operation without the namespaces and endings that versions of tt-metal put around it, and in
    the letters that we know it by."""
    code = text.strip().rpartition("::")[2].partition(" ")[0].replace("DeviceOperation", "")
    return code if code in CODES else SMALL_CODES.get(code.lower().replace("deviceoperation", ""), code)


SMALL_CODES = {code.lower(): code for code in (*KIN, *CODES)}


def _minimal(attributes: str) -> ProductConfig | None:
    match = re.search(r"MinimalMatmulConfig\([^()]*\)", attributes)
    return profile_text.product_config(match[0]) if match else None


SWEPT: dict[str, ConfigKind] = {"mcast_1d": "1d", "dram_sharded": "dram", "minimal_matmul": "minimal"}


def sweep_row(row: Row, line: str) -> TimedRow:
    """A matrix product with its program config, as sweeps list them. What they do not name is taken as in the sweeps
    that do: bfloat16, HiFi2, the left factor where it came from."""
    chip = chip_of(row, line)
    m, k, n = (whole(row, c, line) for c in "MKN")
    kernel = row["kernel"].strip()
    kind = SWEPT.get(kernel)
    dtypes = [product_dtype(row.get(c) or "bfloat16", line) for c in ("in0_dtype", "in1_dtype", "out_dtype")]
    places = [place(row.get(c) or "", line) for c in ("in0_memory", "in1_memory", "out_memory")]
    shapes = ((1, 1, m, k), (1, 1, k, n), (1, 1, m, n))
    a, b, out = (TensorSpec(s, d, "tile", p) for s, d, p in zip(shapes, dtypes, places, strict=True))
    columns, _, lines = (row.get("grid") or "").partition("x")
    grid = (int(columns), int(lines)) if columns.isdigit() and lines.isdigit() else (0, 0)
    sizes = [told_whole(row, c, line) or 0 for c in ("M_block", "per_core_N", "in0_block_w", "K_block", "N_block")]
    subs = [told_whole(row, c, line) or 0 for c in ("subblock_h", "subblock_w")]
    config = None
    if kind is not None or sizes[2]:
        config_kind: ConfigKind = kind or ("1d" if m <= TILE or 8 * m < n or 8 * n < m else "2d")
        config = ProductConfig(
            config_kind, sizes[0], sizes[1] or sizes[4], sizes[2] or sizes[3], 0, 0, subs[0], subs[1], grid
        )
    if kind == "minimal" and grid != (0, 0):
        chip = replace(chip, grid=grid)
    fidelity = fidelity_of(row, line, "HiFi2")
    activation = (row.get("fused_activation") or "").strip().upper()
    cells: dict[str, Any] = {
        "config": config,
        "fused": (("fused", activation),) if activation else (),
        "fp32": (row.get("fp32_dst") or "") == "True",
    }
    params = tuple((name, value) for name, value in cells.items() if value)
    work = Work(2.0 * m * k * n, MATRIX, phased=True)
    cores = told_whole(row, "cores", line)
    op = DeviceOp(
        "matmul", (a, b), (out,), work, fidelity, cores, "MinimalMatmul" if kind == "minimal" else "Matmul", params
    )
    return TimedRow(op, chip, number(row, "kernel_ns", line), arch_of(row) != "?", source_of(row), "matmul_sweeps")


def height_sharded_row(row: Row, line: str) -> TimedRow:
    """A product of a height-sharded left factor; the table says neither chip nor dtype nor fidelity."""
    chip = chip_of(row, line)
    m, k, n, cores = (whole(row, c, line) for c in ("M", "K", "N", "cores"))
    shard = Memory("l1", "height", ShardSpec((-(-m // cores), k), (1, cores)))
    a, b = TensorSpec((1, 1, m, k), "bfloat16", "tile", shard), TensorSpec((1, 1, k, n), "bfloat16", "tile", DRAM)
    out = TensorSpec(
        (1, 1, m, n), "bfloat16", "tile", Memory("l1", "height", ShardSpec((-(-m // cores), n), (1, cores)))
    )
    config = ProductConfig("height", -(-m // (TILE * cores)), -(-n // TILE), -(-k // TILE))
    op = DeviceOp(
        "matmul",
        (a, b),
        (out,),
        Work(2.0 * m * k * n, MATRIX, phased=True),
        "HiFi2",
        cores,
        "Matmul",
        (("config", config),),
    )
    return TimedRow(
        op, chip, number(row, "kernel_ns_median", line), arch_of(row) != "?", source_of(row), "matmul_height_sharded"
    )


def conv_row(row: Row, line: str) -> TimedRow:
    """A convolution as its benchmark lists it; where the grid is not told it is the one its shards need."""
    chip = chip_of(row, line)
    channels, filters, height, width = (whole(row, c, line) for c in ("in_channels", "out_channels", "height", "width"))
    batch = told_whole(row, "batch", line) or 1
    window = [int(n) for n in re.findall(r"\d+", row["kernel"])] or [1]
    window = (window * 2)[:2]
    stride = (told_whole(row, "stride", line) or 1) if (row.get("stride") or "").isdigit() else 1
    down, across = (-(-n // stride) for n in (height, width))
    sharding: Sharding = "block" if row.get("shard", "").strip().upper() == "BS" else "height"
    memory = Memory("l1", sharding)
    per_core = [told_whole(row, c, line) for c in ("per_core_M", "per_core_N")]
    source = TensorSpec((1, 1, batch * height * width, channels), "bfloat16", "row_major", memory)
    depth = channels * math.prod(window)
    weight = TensorSpec((1, 1, depth, filters), "bfloat16", "tile", DRAM)
    out = TensorSpec((1, 1, batch * down * across, filters), "bfloat16", "tile", memory)
    if per_core[0] and per_core[1]:
        out = sharded_as(out, (per_core[0] * TILE, per_core[1] * TILE))
    cells: dict[str, Any] = {
        "bench": True,
        "fp32": row.get("fp32_dst", "").lower() == "true",
        "bias": "bfloat16" if row.get("bias", "").lower() == "true" else "",
        "act_block_h": told_whole(row, "act_block_h", line) if (row.get("act_block_h") or "").isdigit() else None,
    }
    params = tuple((name, value) for name, value in cells.items() if value)
    work = Work(2.0 * depth * out.numel, MATRIX, phased=True)
    op = DeviceOp("conv", (source, weight), (out,), work, "HiFi2", None, "Conv2d", params)
    return TimedRow(op, chip, number(row, "kernel_ns_median", line), arch_of(row) != "?", source_of(row), "conv_bench")


def eltwise_row(row: Row, line: str) -> TimedRow:
    """One call of an element-wise operation, timed by the host."""
    chip = chip_of(row, line)
    elements = whole(row, "elements", line)
    side = TILE * max(1, math.isqrt(elements) // TILE)
    name = row["op"].strip().lower().removesuffix("_")
    if (row.get("variant") or "default").strip() != "default":
        name = f"{name}/{row['variant'].strip()}"
    operands = told_whole(row, "operands", line) or arity(name)
    layout = LAYOUTS.get((row.get("layout") or "TILE").strip().upper(), "tile")
    memory = place(row.get("memory") or "", line)
    spec = TensorSpec((elements // side, side), dtype_of(row["dtype"], line), layout, memory)
    params = (("called", name), ("host", True))
    op = DeviceOp(
        "unary" if operands == 1 else "binary",
        (spec,) * operands,
        (spec,),
        Work(),
        "HiFi4",
        None,
        "Unary" if operands == 1 else "BinaryNg",
        params,
    )
    return TimedRow(op, chip, number(row, "us_median", line, 1e3), arch_of(row) != "?", source_of(row), "eltwise_times")


def reduction_row(row: Row, line: str) -> TimedRow:
    """Softmax, layer norm or a reduction, timed by the host over calls back to back."""
    chip = chip_of(row, line)
    name = row["op"].strip().lower()
    shape = profile_text.shape(row["shape"])
    if shape is None:
        raise UsageError(f"{line}: cannot read the shape {row['shape']!r}. Write it as 4x4x512x512.")
    layout = LAYOUTS.get((row.get("layout") or "TILE").strip().upper(), "tile")
    spec = TensorSpec(shape, dtype_of(row["dtype"], line), layout, place(row.get("memory") or "", line))
    try:
        dim = int(row["dim"]) % len(shape)
    except ValueError:
        raise UsageError(f"{line}: dim is {row['dim']!r}, not a whole number.") from None
    family = "layer norm" if "norm" in name else "softmax" if "soft" in name else "reduce"
    result = (
        spec if family != "reduce" else replace(spec, shape=tuple(1 if i == dim else n for i, n in enumerate(shape)))
    )
    backward = "backward" in name
    params = (("called", name), ("host", True), ("dim", dim))
    inputs = (spec, spec) if backward else (spec,)
    code = {"layer norm": "LayerNorm", "softmax": "Softmax", "reduce": "Reduce"}[family]
    op = DeviceOp(family, inputs, (result,), Work(), "HiFi4", None, code, params)
    return TimedRow(op, chip, number(row, "us", line, 1e3), arch_of(row) != "?", source_of(row), "softmax_reduce_host")


READERS: dict[str, Callable[[Row, str], TimedRow | None]] = {
    "op_times": op_row,
    "matmul_sweeps": sweep_row,
    "matmul_height_sharded": height_sharded_row,
    "conv_bench": conv_row,
    "eltwise_times": eltwise_row,
    "softmax_reduce_host": reduction_row,
}
