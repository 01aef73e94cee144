"""Cells of published tables: tensors, placements, data types, fidelities, and the chip that a row ran on."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import replace

from proveout.chip.fidelity import PHASES
from proveout.chip.specs import CHIPS
from proveout.errors import UsageError
from proveout.types import DRAM, Buffer, DeviceSpec, Layout, Memory, Sharding, ShardSpec, TensorSpec

Row = Mapping[str, str]

ARCHES = {
    "wormhole": "n150", "wormhole_b0": "n150", "wh": "n150", "n150": "n150", "n300": "n300",
    "blackhole": "p150", "bh": "p150", "p100": "p100", "p100a": "p100", "p150": "p150", "p150a": "p150",
    "p150b": "p150", "?": "p150",
}  # fmt: skip
"""Chips by the word in the `arch` column. `?` are the rows whose source does not say: those that repeat a Blackhole
row's op, shapes and cores also repeat its time, so they are taken for Blackhole."""
GRIDS = {20: (5, 4), 56: (8, 7), 64: (8, 8), 70: (7, 10), 72: (8, 9), 110: (11, 10), 130: (13, 10)}
"""Core grids by the number of cores that the run had."""
UNRECORDED_CORES = 20

FIDELITIES = {name.lower(): name for name in PHASES}
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
SHARDINGS: dict[str, Sharding] = {
    "INTERLEAVED": "interleaved", "HEIGHT": "height", "WIDTH": "width", "BLOCK": "block", "ND": "block",
}  # fmt: skip
MOST_ELEMENTS = 1 << 40
"""More than any chip holds."""
BUFFERS: dict[str, Buffer] = {"DRAM": "dram", "L1": "l1"}


@functools.lru_cache(maxsize=65536)
def tensor(text: str, line: str) -> TensorSpec:
    """`1x1x32x64:TILE:BFLOAT16:DRAM_INTERLEAVED` as a TensorSpec."""
    try:
        return _tensor(text.strip().upper())
    except (ValueError, KeyError):
        raise UsageError(
            f"{line}: cannot read the tensor {text!r}. Write it as 1x1x32x64:TILE:BFLOAT16:DRAM_INTERLEAVED."
        ) from None


@functools.lru_cache(maxsize=65536)
def _tensor(text: str) -> TensorSpec:
    size, layout, dtype, place = text.split(":")
    shape = tuple(int(n) for n in size.split("X"))
    if min(shape) < 1 or math.prod(shape) > MOST_ELEMENTS:
        raise ValueError("no tensor of a chip")
    return TensorSpec(shape, DTYPES[dtype], LAYOUTS[layout], _memory(place))


def _memory(place: str) -> Memory:
    """`DRAM_INTERLEAVED`; profilers write the number of the device before it."""
    if place.startswith("DEV_"):
        place = place.removeprefix("DEV_").partition("_")[2]
    buffer, _, sharding = place.partition("_")
    return Memory(BUFFERS[buffer], SHARDINGS[sharding.removesuffix("_SHARDED")])


def place(text: str, line: str) -> Memory:
    try:
        return _memory(text.strip().upper()) if text.strip() else DRAM
    except KeyError:
        raise UsageError(f"{line}: no placement {text!r}. Write it as DRAM_INTERLEAVED or L1_WIDTH_SHARDED.") from None


def sharded_as(spec: TensorSpec, shard: tuple[int, ...] | None) -> TensorSpec:
    """With the shard that a table tells, on the cores that it then takes."""
    if shard is None or len(shard) != 2 or not all(shard) or spec.memory.sharding == "interleaved":
        return spec
    grid = (-(-spec.shape[-1] // shard[1]), -(-math.prod(spec.shape[:-1]) // shard[0]))
    return replace(spec, memory=replace(spec.memory, shard=ShardSpec((shard[0], shard[1]), grid)))


def dtype_of(text: str, line: str) -> str:
    dtype = DTYPES.get(text.strip().upper())
    if dtype is None:
        raise UsageError(f"{line}: no dtype {text!r}. Take one of {', '.join(DTYPES.values())}.")
    return dtype


def product_dtype(text: str, line: str) -> str:
    dtype = text.strip().lower()
    if dtype not in PRODUCT_DTYPES:
        raise UsageError(f"{line}: no dtype {text!r}. Take one of {', '.join(PRODUCT_DTYPES)}.")
    return dtype


def source_of(row: Row) -> str:
    """The model that a row comes from, else its file without the commit."""
    model = (row.get("model") or "").strip()
    return model or re.sub(r"@\S+", "", row.get("source") or "")


def arch_of(row: Row) -> str:
    return (row.get("arch") or "").strip().lower()


def chip_of(row: Row, line: str) -> DeviceSpec:
    arch = arch_of(row)
    if arch not in ARCHES:
        raise UsageError(f"{line}: no arch {row.get('arch')!r}. Take wormhole or blackhole.")
    available = (row.get("available_cores") or "").strip()
    return _known_chip(arch, row.get("device") or "", available)


@functools.lru_cache(maxsize=1024)
def _known_chip(arch: str, device: str, available: str) -> DeviceSpec:
    """The chip that the `device` column names, else the architecture's; with the cores that the run had."""
    chip = CHIPS[ARCHES[arch]]
    chip = next((c for name, c in CHIPS.items() if name in device.lower() and c.arch == chip.arch), chip)
    match = re.search(r"(\d+)[ -]core", device.lower())
    cores = int(available) if available.isdigit() else int(match[1]) if match else 0
    if not cores:
        cores = UNRECORDED_CORES if arch == "?" and "OFT" in device else chip.cores
    return replace(chip, grid=GRIDS.get(cores, chip.grid))


def fidelity_of(row: Row, line: str) -> str:
    fidelity = FIDELITIES.get(row["math_fidelity"].strip().lower(), "")
    if not fidelity:
        raise UsageError(f"{line}: no math_fidelity {row['math_fidelity']!r}. Take one of {', '.join(PHASES)}.")
    return fidelity
