"""Vector files: what a chip or its simulator computed, put to this arithmetic, bit by bit.

A file is numpy's `.npz`. `notes` is JSON text, a list of one object per case (`case`, `kind`, dtypes, `scaler` …).
Arrays are `CASE_NAME` and hold bit patterns: uint16 is bfloat16 (or float16 where the notes say so), uint32 float32,
uint8 parts of block floats. Wormhole's values; where Blackhole differs, `NAME_bh_at` (flat indices) and `NAME_bh`.
A file comes from a stranger: sizes are bounded before anything is read, and nothing in it is ever executed.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proveout.errors import UsageError
from proveout.kernels.arithmetic import formats, matrix, products, vector
from proveout.kernels.arithmetic.bits import Arch, Tensor, bits, floats
from proveout.kernels.arithmetic.matrix import Unit

ARCHES: tuple[Arch, ...] = ("wormhole", "blackhole")
FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")
MAX_BYTES, MAX_ARRAYS = 1 << 28, 20_000
PATTERNS = {"uint8": 8, "uint16": 16, "uint32": 32}

Case = dict[str, np.ndarray[Any, Any]]
Matmul = Callable[[Tensor, Tensor, Unit], Tensor]


@dataclass(frozen=True)
class Finding:
    """One result of one case on one chip: how many bits patterns agree, and the first that does not."""

    file: str
    case: str
    kind: str
    setting: str
    arch: Arch
    equal: int
    total: int
    first: str | None = None
    """`[3, 17]: 0x3f81, not 0x3f80`: where, what we compute, what the file says."""


def check_file(
    path: Path, matmul: Matmul = products.matmul, chosen: Callable[[str], bool] = lambda case: True
) -> list[Finding]:
    """Every result that a file states for the `chosen` cases, computed again."""
    cases, notes = read(path)
    findings = [
        f
        for case, arrays in cases.items()
        if chosen(case)
        for f in _check_case(path.name, case, arrays, notes.get(case, {}), matmul)
    ]
    if not findings:
        raise UsageError(f"{path}: no case that is known. See docs/reference/numerics-vectors.md for the format.")
    return findings


def read(path: Path) -> tuple[dict[str, Case], dict[str, dict[str, Any]]]:
    """Arrays and notes by case; `` is the case of arrays without one."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        if len(members) > MAX_ARRAYS or sum(m.file_size for m in members) > MAX_BYTES:
            raise UsageError(f"{path}: more than {MAX_ARRAYS} arrays or {MAX_BYTES >> 20} MiB. Split the file.")
        with np.load(path, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file.") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, SyntaxError) as e:
        raise UsageError(f"{path}: not a vector file: {e}") from None
    notes = _notes(path, arrays.pop("notes", None))
    cases: dict[str, Case] = {}
    for name, array in arrays.items():
        if array.dtype.name not in PATTERNS:
            raise UsageError(f"{path}: {name} is {array.dtype}; patterns are {', '.join(PATTERNS)}.")
        head, _, tail = name.partition("_")
        numbered = head[:1] == "c" and head[1:].isdecimal()
        cases.setdefault(head if numbered else "", {})[tail if numbered else name] = array
    return cases, notes


def _notes(path: Path, text: np.ndarray[Any, Any] | None) -> dict[str, dict[str, Any]]:
    try:
        notes = json.loads(str(text)) if text is not None else []
        return {str(entry["case"]): dict(entry) for entry in notes}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"{path}: its notes are not a JSON list of objects with a case each.") from None


def _check_case(file: str, case: str, arrays: Case, notes: Mapping[str, Any], matmul: Matmul) -> Iterator[Finding]:
    try:
        for name, setting, arch, computed in _computed(arrays, notes, matmul):
            if name not in arrays:
                continue
            wanted = _expected(arrays, name, arch).reshape(-1)
            computed_bits = _unsigned(computed, arrays[name].dtype).reshape(-1)
            if "/" in setting:  # one fidelity of several
                index = FIDELITIES.index(setting.split("/")[0])
                wanted = wanted.reshape(-1, computed_bits.size)[index]
            if wanted.size != computed_bits.size:
                raise ValueError(f"{name} has {wanted.size} numbers, not {computed_bits.size}")
            differ = np.flatnonzero(wanted != computed_bits)
            first = None
            if differ.size:
                at = tuple(int(i) for i in np.unravel_index(differ[0], tuple(computed.shape)))
                first = f"{list(at)}: {computed_bits[differ[0]]:#x}, not {wanted[differ[0]]:#x}"
            label = f"{name} {setting.split('/')[0]}".strip() if setting else name
            kind = str(notes.get("kind", ""))
            yield Finding(file, case, kind, label, arch, wanted.size - differ.size, wanted.size, first)
    except (ValueError, IndexError, KeyError, TypeError, RuntimeError) as e:
        raise UsageError(f"{file}: case {case or '(none)'} is not of a known form: {e}") from None


def _expected(arrays: Case, name: str, arch: Arch) -> np.ndarray[Any, Any]:
    wanted = arrays[name].copy()
    if arch == "blackhole" and f"{name}_bh_at" in arrays:
        wanted.reshape(-1)[arrays[f"{name}_bh_at"]] = arrays[f"{name}_bh"]
    return wanted


def _unsigned(values: Tensor, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A result as patterns of the file's width: float32 results are cut to their top bits for 16."""
    if values.dtype == torch.float32:
        pattern = bits(values).numpy().view(np.uint32)
        return pattern >> 16 if dtype.itemsize == 2 else pattern
    return values.numpy().astype(np.int64).astype(dtype)


# ---- what each kind of case computes: (name of the array, setting, chip, result) -----------------------------------

Results = Iterator[tuple[str, str, Arch, Tensor]]


def _computed(arrays: Case, notes: Mapping[str, Any], matmul: Matmul) -> Results:
    if "in0" in arrays:
        return _products(arrays, notes, matmul)
    if "a" in arrays:
        return _elements(arrays)
    if "scaler" in notes:
        return _reductions(arrays, notes)
    if "dst" in arrays:
        return _packing(arrays)
    if "x" in arrays:
        return _vector_unit(arrays)
    return _unpacking(arrays)


def _operand(array: np.ndarray[Any, Any], half: bool = False) -> Tensor:
    """bfloat16, float32 or float16 from its pattern."""
    if array.dtype == np.uint32:
        return torch.from_numpy(array.view(np.int32).copy()).view(torch.float32)
    if array.dtype != np.uint16:
        raise ValueError(f"an operand of {array.dtype}")
    return torch.from_numpy(array.view(np.int16).copy()).view(torch.float16 if half else torch.bfloat16)


def _products(arrays: Case, notes: Mapping[str, Any], matmul: Matmul) -> Results:
    half = notes.get("in0") == "float16"
    in0, in1 = (_operand(arrays[k], half)[None] for k in ("in0", "in1"))
    for arch in ARCHES:
        for name, wide in (("dst16", False), ("dst32", True)):
            for phases, fidelity in enumerate(FIDELITIES, 1):
                out = matmul(in0, in1, Unit(arch, phases, wide, half))[0]
                if half and not wide:
                    raw = bits(out)
                    out = raw >> 16 & 0x8000 | (raw >> 13 & 0x7FFF)
                yield name, f"{fidelity}/", arch, out


def _elements(arrays: Case) -> Results:
    a, b = (_operand(arrays[k]) for k in "ab")
    for arch in ARCHES:
        for width, wide in (("16", False), ("32", True)):
            yield f"add{width}", "", arch, products.add(a, b, Unit(arch, 1, wide))
            yield f"sub{width}", "", arch, products.add(a, b, Unit(arch, 1, wide), subtract=True)
            for phases, fidelity in enumerate(FIDELITIES, 1):
                yield f"mul{width}", f"{fidelity}/", arch, products.multiply(a, b, Unit(arch, phases, wide))


def _reductions(arrays: Case, notes: Mapping[str, Any]) -> Results:
    x = _operand(arrays["x"])[None]
    scaler = floats(torch.tensor(int(notes["scaler"]) - (1 << 32 if notes["scaler"] >= 1 << 31 else 0)))
    for arch in ARCHES:
        for width, wide in (("16", False), ("32", True)):
            for phases, fidelity in enumerate(FIDELITIES, 1):
                out = matrix.sum_rows(x, scaler, Unit(arch, phases, wide))
                yield f"sum{width}", f"{fidelity}/", arch, out.reshape(-1)
            yield f"max{width}", "", arch, matrix.max_rows(x, Unit(arch, 1, wide)).reshape(-1)


def _packing(arrays: Case) -> Results:
    dest, there = (_operand(arrays[k]) for k in ("dst", "l1"))
    for arch in ARCHES:
        for source, wide in (("from16", False), ("from32", True)):
            held = dest if wide else floats(bits(dest) & -0x10000)
            packed = formats.pack_bfloat16(held, wide)
            yield f"bf16_{source}", "", arch, packed
            old = floats(bits(there) & -0x10000)
            yield f"l1acc_bf16_{source}", "", arch, formats.add_in_l1(old, packed, fp32=False)
            if wide:
                yield f"l1acc_fp32_{source}", "", arch, formats.add_in_l1(there, held, fp32=True)
            for short, dtype in (("bfp8", "bfloat8_b"), ("bfp4", "bfloat4_b")):
                for way in ("", "precise"):
                    blocks = held.reshape(-1, formats.FACE)
                    sign, magnitude, shared = formats.pack_blocks(blocks, dtype, wide, way == "precise")
                    code = sign << formats.MAGNITUDE_BITS[dtype] | magnitude
                    yield f"{short}{way}_{source}", "", arch, code.reshape(-1)
                    yield f"{short}{way}exp_{source}", "", arch, shared.reshape(-1)


def _unpacking(arrays: Case) -> Results:
    for arch in ARCHES:
        for short, num_bits in (("bfp8", 7), ("bfp4", 3)):
            if f"{short}_mantissa" not in arrays:
                continue
            code = torch.from_numpy(arrays[f"{short}_mantissa"].astype(np.int32)).reshape(-1, formats.FACE)
            shared = torch.from_numpy(arrays[f"{short}_exponent"].astype(np.int32)).reshape(-1, 1)
            sign, magnitude = code >> num_bits & 1, code & (1 << num_bits) - 1
            yield f"{short}_src", "", arch, formats.unpack_blocks(sign, magnitude, shared, num_bits).reshape(-1)
        if "fp32" in arrays:
            x = _operand(arrays["fp32"])
            yield "fp32_to_tf32", "", arch, formats.to_source(x, fp32_dest=True)
            yield "fp32_to_bf16", "", arch, formats.to_source(x, fp32_dest=False)


def _vector_unit(arrays: Case) -> Results:
    x = _operand(arrays["x"])
    y, z, y2 = (_operand(arrays[k]) if k in arrays else x for k in ("y", "z", "y2"))
    words = (bits(y),) * 3
    for arch in ARCHES:
        yield "mad", "", arch, vector.mad(x, y, z, arch)
        yield "mul", "", arch, vector.multiply(x, y, arch)
        yield "add", "", arch, vector.add(x, y2, arch)
        yield "lut", "", arch, vector.lut(x, words, arch)
        yield "lutfp32", "", arch, vector.lut_float32(x, words, (bits(z),) * 3, arch)
        yield "exexp", "", arch, vector.field_of(x)
        yield "cast", "", arch, vector.cast(bits(x))
        yield "stoch_rnd", "", arch, vector.round_bfloat16(x)
        yield "store_bf16", "", arch, vector.store_bfloat16(x)
        yield "store_fp32", "", arch, vector.store_float32(x)
        if arch == "blackhole":
            yield "arecip_bh_only", "", arch, vector.approximate_reciprocal(x)
