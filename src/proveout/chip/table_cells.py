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
    "BF16": "bfloat16",
    "BFP8": "bfloat8_b",
    "BFP8_B": "bfloat8_b",
    "BFLOAT8": "bfloat8_b",
    "BFP4": "bfloat4_b",
    "BFP4_B": "bfloat4_b",
    "BFLOAT4": "bfloat4_b",
    "FP32": "float32",
}
"""By ttnn's names, and by those that people write for them."""
PRODUCT_DTYPES = ("bfloat16", "bfloat8_b", "bfloat4_b", "float32")
LAYOUTS: dict[str, Layout] = {"TILE": "tile", "TILED": "tile", "ROW_MAJOR": "row_major", "RM": "row_major"}
SHARDINGS: dict[str, Sharding] = {
    "": "interleaved", "INTERLEAVED": "interleaved", "HEIGHT": "height", "WIDTH": "width", "BLOCK": "block",
    "ND": "block",
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
    size, layout, dtype, place = (_bare(part) for part in _without_enums(text).split(":"))
    shape = tuple(int(n) for n in size.split("X"))
    if min(shape) < 1 or math.prod(shape) > MOST_ELEMENTS:
        raise ValueError("no tensor of a chip")
    return TensorSpec(shape, DTYPES[dtype], LAYOUTS[layout], _memory(place))


ENUMS = ("TENSORMEMORYLAYOUT", "DATATYPE", "LAYOUT", "MATHFIDELITY", "BUFFERTYPE")
"""What stands before a name where somebody printed ttnn's own value."""


def _without_enums(text: str) -> str:
    for enum in ENUMS:
        text = text.replace(f"{enum}::", "").replace(f"{enum}.", "")
    return text


def _bare(word: str) -> str:
    return word.strip().replace(" ", "_").replace("-", "_")


def named(text: str) -> str:
    """A word of ttnn's in capitals, however it is written: `DataType.BFLOAT16` is `BFLOAT16`."""
    return _bare(_without_enums(text.strip().upper()))


def _memory(place: str) -> Memory:
    """`DRAM_INTERLEAVED`; profilers write the number of the device before it."""
    if place.startswith("DEV_"):
        place = place.removeprefix("DEV_").partition("_")[2]
    buffer, _, sharding = place.partition("_")
    return Memory(BUFFERS[buffer], SHARDINGS[sharding.removesuffix("_SHARDED")])


def place(text: str, line: str) -> Memory:
    try:
        return _memory(named(text)) if text.strip() else DRAM
    except KeyError:
        raise UsageError(f"{line}: no placement {text!r}. Write it as DRAM_INTERLEAVED or L1_WIDTH_SHARDED.") from None


def sharded_as(spec: TensorSpec, shard: tuple[int, ...] | None) -> TensorSpec:
    """With the shard that a table tells, on the cores that it then takes."""
    if shard is None or len(shard) != 2 or not all(shard) or not spec.memory.is_sharded:
        return spec
    grid = (-(-spec.shape[-1] // shard[1]), -(-math.prod(spec.shape[:-1]) // shard[0]))
    return replace(spec, memory=replace(spec.memory, shard=ShardSpec((shard[0], shard[1]), grid)))


def dtype_of(text: str, line: str) -> str:
    dtype = DTYPES.get(named(text) or "BFLOAT16")
    if dtype is None:
        raise UsageError(f"{line}: no dtype {text!r}. Take one of {', '.join(DTYPES.values())}.")
    return dtype


def product_dtype(text: str, line: str) -> str:
    dtype = DTYPES.get(named(text) or "BFLOAT16", "")
    if dtype not in PRODUCT_DTYPES:
        raise UsageError(f"{line}: no dtype {text!r}. Take one of {', '.join(PRODUCT_DTYPES)}.")
    return dtype


def source_of(row: Row) -> str:
    """The model that a row comes from, else its file without the commit."""
    model = (row.get("model") or "").strip()
    return model or re.sub(r"@\S+", "", row.get("source") or "")


def arch_of(row: Row) -> str:
    """The word for a row's chip: of its `arch` column, else of the board that it names; empty where neither tells."""
    text = (row.get("arch") or "").strip().lower()
    if text in ARCHES:
        return text
    said = text or (row.get("device") or "").lower()
    return next((name for name in NAMED if name in said), "")


NAMED = sorted((name for name in ARCHES if len(name) > 2), key=len, reverse=True)


def chip_of(row: Row, line: str) -> DeviceSpec:
    arch = arch_of(row)
    if not arch:
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


def fidelity_of(row: Row, line: str, untold: str) -> str:
    """The fidelity of a row, or the `untold` one."""
    text = row.get("math_fidelity") or ""
    fidelity = FIDELITIES.get(named(text).replace("_", "").lower(), "") if text.strip() else untold
    if not fidelity:
        raise UsageError(f"{line}: no math_fidelity {text!r}. Take one of {', '.join(PHASES)}.")
    return fidelity
