"""Vector files: what a chip or its simulator computed, put to this arithmetic, bit by bit.

A file is numpy's `.npz`. `notes` is JSON text, a list of one object per case (`case`, `kind`, dtypes, `scaler` …).
Arrays are `CASE_NAME` and hold bit patterns: uint16 is bfloat16 (or float16 where the notes say so), uint32 float32,
uint8 parts of block floats. Wormhole's values; where Blackhole differs, `NAME_bh_at` (flat indices) and `NAME_bh`.
A file comes from a stranger: sizes are bounded before anything is read, and nothing in it is ever executed. What can
be judged is; of every other array the reason is told.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
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
OPERANDS = {
    *("in0", "in1", "a", "b", "x", "y", "z", "y2", "dst", "l1", "fp32"),
    *(f"{short}_{part}" for short in ("bfp8", "bfp4") for part in ("mantissa", "exponent")),
}
"""Arrays that are read and not judged."""
DIFFERENCES = ("_bh_at", "_bh")
"""How the names of arrays end that say where Blackhole differs."""

Case = dict[str, np.ndarray[Any, Any]]
Matmul = Callable[[Tensor, Tensor, Unit], Tensor]


@dataclass(frozen=True)
class Finding:
    """One result of one case on one chip: how many bit patterns agree, and the first that does not."""

    file: str
    case: str
    kind: str
    setting: str
    arch: Arch | None
    equal: int
    total: int
    first: str | None = None
    """`[3, 17]: 0x3f81, not 0x3f80`: where, what we compute, what the file says."""
    unjudged: str | None = None
    """Why nothing could be compared."""


def check_file(
    path: Path, matmul: Matmul = products.matmul, chosen: Callable[[str], bool] = lambda case: True
) -> list[Finding]:
    """Every result that a file states for the `chosen` cases, computed again; and of each array that cannot be judged,
    why."""
    cases, notes, unread = read(path)
    findings = [Finding(path.name, "", "", name, None, 0, 0, unjudged=why) for name, why in unread.items()]
    for case, arrays in cases.items():
        if chosen(case):
            findings += _check_case(path.name, case, arrays, notes.get(case, {}), matmul)
    if not any(f.unjudged is None for f in findings):
        why = next((f"{f.setting}: {f.unjudged}" for f in findings if f.unjudged), "it has no arrays")
        raise UsageError(
            f"{path}: no case that is known could be judged ({why}). See docs/reference/numerics-vectors.md for the "
            "format."
        )
    return findings


def read(path: Path) -> tuple[dict[str, Case], dict[str, dict[str, Any]], dict[str, str]]:
    """Arrays and notes by case (`` is the case of arrays without one), and why other arrays could not be read."""
    arrays: Case = {}
    unread: dict[str, str] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        if len(members) > MAX_ARRAYS or sum(m.file_size for m in members) > MAX_BYTES:
            raise UsageError(f"{path}: more than {MAX_ARRAYS} arrays or {MAX_BYTES >> 20} MiB. Split the file.")
        with np.load(path, allow_pickle=False) as loaded:
            for name in loaded.files:
                try:
                    array = loaded[name]
                except Exception as e:  # numpy's header is parsed as Python: any kind, one meaning
                    unread[name] = f"damaged, or no array of numbers: {e}"
                    continue
                if isinstance(array, np.ndarray):
                    arrays[name] = array
                else:
                    unread[name] = "no array of numbers"
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file.") from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as e:
        raise UsageError(f"{path}: not a vector file: {e}") from None
    if unread and not arrays:
        raise UsageError(f"{path}: not a vector file: {next(iter(unread.values()))}")
    notes = _notes(path, arrays.pop("notes", None))
    cases: dict[str, Case] = {}
    named = _case_names(arrays, notes)
    for name, array in arrays.items():
        if array.dtype.name not in PATTERNS:
            unread[name] = f"{name} is {array.dtype}; patterns are {', '.join(PATTERNS)}"
            continue
        case, rest = _split(name, named)
        cases.setdefault(case, {})[rest] = array
    return cases, notes, unread


def _case_names(names: Iterable[str], notes: Mapping[str, Any]) -> set[str]:
    """Cases are those of the notes and `c` with a number; of other names, whatever stands before an operand's."""
    heads = {name.partition("_")[0] for name in names}
    known = {case for case in notes if case} | {head for head in heads if head[:1] == "c" and head[1:].isdecimal()}
    others = [name for name in names if not _split(name, known)[0] and name not in OPERANDS]
    return known | {
        name.removesuffix(f"_{operand}") for name in others for operand in OPERANDS if name.endswith(f"_{operand}")
    }


def _split(name: str, cases: set[str]) -> tuple[str, str]:
    """An array's case, `` where it has none, and its name there."""
    case = max((case for case in cases if name.startswith(f"{case}_")), key=len, default="")
    return (case, name[len(case) + 1 :]) if case else ("", name)


def _notes(path: Path, text: np.ndarray[Any, Any] | None) -> dict[str, dict[str, Any]]:
    try:
        notes = json.loads(str(text)) if text is not None else []
        return {str(entry["case"]): dict(entry) for entry in notes}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"{path}: its notes are not a JSON list of objects with a case each.") from None


def _check_case(file: str, case: str, arrays: Case, notes: Mapping[str, Any], matmul: Matmul) -> Iterator[Finding]:
    kind = str(notes.get("kind", ""))
    judged = set()
    unjudged: dict[str, str] = {}
    try:
        for result in _computed(arrays, notes, matmul):
            if result.name not in arrays or result.name in unjudged:
                continue
            try:
                finding = _compare(result, arrays, notes)
            except (ValueError, IndexError, KeyError, TypeError, RuntimeError) as e:
                unjudged[result.name] = f"case {case or '(none)'} is not of a known form: {e}"
                continue
            if finding is not None:
                judged.add(result.name)
                equal, total, first = finding
                label = f"{result.name} {result.fidelity or ''}".strip()
                yield Finding(file, case, kind, label, result.arch, equal, total, first)
    except (ValueError, IndexError, KeyError, TypeError, RuntimeError) as e:
        unjudged |= dict.fromkeys(arrays, f"case {case or '(none)'} is not of a known form: {e}")
    for name in arrays:
        stem = next((name.removesuffix(end) for end in DIFFERENCES if name.endswith(end)), name)
        if name not in judged and stem not in judged and (name in unjudged or name not in OPERANDS):
            why = unjudged.get(name, "no result of that name is known for what the case has")
            yield Finding(file, case, kind, name, None, 0, 0, unjudged=why)


def _compare(result: _Result, arrays: Case, notes: Mapping[str, Any]) -> tuple[int, int, str | None] | None:
    """Numbers that are equal, all numbers, the first difference; None where the file has not this fidelity."""
    wanted = _expected(arrays, result.name, result.arch).reshape(-1)
    computed = result.compute()
    patterns = _unsigned(computed, arrays[result.name].dtype).reshape(-1)
    if result.fidelity is not None:
        if not patterns.size or wanted.size % patterns.size:
            raise ValueError(f"{result.name} has {wanted.size} numbers, no multiple of {patterns.size}")
        there = _fidelities(notes, wanted.size // patterns.size)
        if result.fidelity not in there:
            return None
        wanted = wanted.reshape(-1, patterns.size)[there.index(result.fidelity)]
    if wanted.size != patterns.size:
        raise ValueError(f"{result.name} has {wanted.size} numbers, not {patterns.size}")
    differ = np.flatnonzero(wanted != patterns)
    first = None
    if differ.size:
        at = [int(i) for i in np.unravel_index(differ[0], tuple(computed.shape))]
        first = f"{at}: {patterns[differ[0]]:#x}, not {wanted[differ[0]]:#x}"
    return wanted.size - differ.size, wanted.size, first


def _fidelities(notes: Mapping[str, Any], num: int) -> list[str]:
    """Which a result has: what the notes say, or as many as it has, from LoFi on."""
    said = notes.get("fidelities", notes.get("fidelity"))
    named = [said] if isinstance(said, str) else [str(f) for f in said] if isinstance(said, list) else FIDELITIES[:num]
    if len(named) != num:
        raise ValueError(f"results for {num} fidelities, not {len(named)}")
    return list(named)


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


# ---- what each kind of case computes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Result:
    """What a case's array of this name has to hold, once it is asked for."""

    name: str
    arch: Arch
    compute: Callable[[], Tensor]
    fidelity: str | None = None


Results = Iterator[_Result]


def _computed(arrays: Case, notes: Mapping[str, Any], matmul: Matmul) -> Results:
    if "in0" in arrays:
        return _products(arrays, notes, matmul)
    if "a" in arrays:
        return _elements(arrays, notes)
    if "dst" in arrays:
        return _packing(arrays)
    if "x" in arrays:
        reduced = "scaler" in notes or any(name.startswith(("sum", "max")) for name in arrays)
        return _reductions(arrays, notes) if reduced else _vector_unit(arrays)
    return _unpacking(arrays)


def _operand(array: np.ndarray[Any, Any], half: bool = False) -> Tensor:
    """bfloat16, float32 or float16 from its pattern."""
    if array.dtype == np.uint32:
        return torch.from_numpy(array.view(np.int32).copy()).view(torch.float32)
    if array.dtype != np.uint16:
        raise ValueError(f"an operand of {array.dtype}")
    return torch.from_numpy(array.view(np.int16).copy()).view(torch.float16 if half else torch.bfloat16)


def _settings(half: bool) -> Iterator[tuple[str, str, Unit]]:
    """The destination's width, the fidelity and the unit, for every one that results are given for."""
    for arch in ARCHES:
        for width, wide in (("16", False), ("32", True)):
            for phases, fidelity in enumerate(FIDELITIES, 1):
                yield width, fidelity, Unit(arch, phases, wide, half)


def _held(dest: Tensor, unit: Unit) -> Tensor:
    """A destination as files give it: a float16 one as its own 16 bits."""
    if not unit.half or unit.fp32_dest:
        return dest
    raw = bits(dest)
    return raw >> 16 & 0x8000 | (raw >> 13 & 0x7FFF)


def _products(arrays: Case, notes: Mapping[str, Any], matmul: Matmul) -> Results:
    half = "float16" in (notes.get("in0"), notes.get("in1"))
    in0, in1 = (_operand(arrays[k], half) for k in ("in0", "in1"))
    if half and in0.dtype != in1.dtype:
        raise ValueError("float16 meets float16 alone")
    batched = [t if t.ndim == 3 else t[None] for t in (in0, in1)]
    flat = in0.ndim == in1.ndim == 2

    def product(unit: Unit) -> Tensor:
        out = _held(matmul(batched[0], batched[1], unit), unit)
        return out[0] if flat else out

    for width, fidelity, unit in _settings(half):
        yield _Result(f"dst{width}", unit.arch, partial(product, unit), fidelity)


def _elements(arrays: Case, notes: Mapping[str, Any]) -> Results:
    half = notes.get("dtype") == "float16"
    a, b = (_operand(arrays[k], half) for k in "ab")

    def total(unit: Unit, subtract: bool) -> Tensor:
        return _held(products.add(a, b, unit, subtract), unit)

    def product(unit: Unit) -> Tensor:
        return _held(products.multiply(a, b, unit), unit)

    for width, fidelity, unit in _settings(half):
        if unit.phases == 1:
            yield _Result(f"add{width}", unit.arch, partial(total, unit, False))
            yield _Result(f"sub{width}", unit.arch, partial(total, unit, True))
        yield _Result(f"mul{width}", unit.arch, partial(product, unit), fidelity)


def _reductions(arrays: Case, notes: Mapping[str, Any]) -> Results:
    half = notes.get("dtype") == "float16"
    x = _operand(arrays["x"], half)
    x = x if x.ndim == 3 else x[None]

    def total(unit: Unit) -> Tensor:
        if "scaler" not in notes:
            raise ValueError("the notes give no scaler")
        pattern = int(notes["scaler"])
        scaler = floats(torch.tensor(pattern - (1 << 32) if pattern >= 1 << 31 else pattern))
        return _held(matrix.sum_rows(x, scaler, unit), unit).reshape(-1)

    def largest(unit: Unit) -> Tensor:
        return matrix.max_rows(x, unit).reshape(-1)

    for width, fidelity, unit in _settings(half):
        yield _Result(f"sum{width}", unit.arch, partial(total, unit), fidelity)
        if unit.phases == 1 and not half:
            yield _Result(f"max{width}", unit.arch, partial(largest, unit))


def _packing(arrays: Case) -> Results:
    dest = _operand(arrays["dst"])
    there = _operand(arrays["l1"]) if "l1" in arrays else None

    def kept(fp32: bool, packed: Tensor) -> Tensor:
        if there is None:
            raise ValueError("the case has no l1 to add to")
        return formats.add_in_l1(there if fp32 else floats(bits(there) & -0x10000), packed, fp32)

    def blocks(held: Tensor, dtype: str, wide: bool, precise: bool, part: int) -> Tensor:
        sign, magnitude, shared = formats.pack_blocks(held.reshape(-1, formats.FACE), dtype, wide, precise)
        code = sign << formats.MAGNITUDE_BITS[dtype] | magnitude
        return (code, shared)[part].reshape(-1)

    for arch in ARCHES:
        for source, wide in (("from16", False), ("from32", True)):
            held = dest if wide else floats(bits(dest) & -0x10000)
            packed = formats.pack_bfloat16(held, wide)
            yield _Result(f"bf16_{source}", arch, partial(torch.clone, packed))
            yield _Result(f"l1acc_bf16_{source}", arch, partial(kept, False, packed))
            if wide:
                yield _Result(f"l1acc_fp32_{source}", arch, partial(kept, True, held))
            for short, dtype in (("bfp8", "bfloat8_b"), ("bfp4", "bfloat4_b")):
                for way in ("", "precise"):
                    for part, label in enumerate(("", "exp")):
                        how = partial(blocks, held, dtype, wide, way == "precise", part)
                        yield _Result(f"{short}{way}{label}_{source}", arch, how)


def _unpacking(arrays: Case) -> Results:
    def unpacked(short: str, num_bits: int) -> Tensor:
        code = torch.from_numpy(arrays[f"{short}_mantissa"].astype(np.int32)).reshape(-1, formats.FACE)
        shared = torch.from_numpy(arrays[f"{short}_exponent"].astype(np.int32)).reshape(-1, 1)
        sign, magnitude = code >> num_bits & 1, code & (1 << num_bits) - 1
        return formats.unpack_blocks(sign, magnitude, shared, num_bits).reshape(-1)

    for arch in ARCHES:
        yield _Result("bfp8_src", arch, lambda: unpacked("bfp8", 7))
        yield _Result("bfp4_src", arch, lambda: unpacked("bfp4", 3))
        yield _Result("fp32_to_tf32", arch, lambda: formats.to_source(_operand(arrays["fp32"]), fp32_dest=True))
        yield _Result("fp32_to_bf16", arch, lambda: formats.to_source(_operand(arrays["fp32"]), fp32_dest=False))


def _vector_unit(arrays: Case) -> Results:
    x = _operand(arrays["x"]).float()

    def other(name: str) -> Tensor:
        if name not in arrays:
            raise ValueError(f"the case has no {name}")
        return _operand(arrays[name]).float()

    def words(name: str) -> tuple[Tensor, Tensor, Tensor]:
        return (bits(other(name)),) * 3

    def on(arch: Arch) -> Results:
        yield _Result("mad", arch, lambda: vector.mad(x, other("y"), other("z"), arch))
        yield _Result("mul", arch, lambda: vector.multiply(x, other("y"), arch))
        yield _Result("add", arch, lambda: vector.add(x, other("y2"), arch))
        yield _Result("lut", arch, lambda: vector.lut(x, words("y"), arch))
        yield _Result("lutfp32", arch, lambda: vector.lut_float32(x, words("y"), words("z"), arch))
        yield _Result("exexp", arch, lambda: vector.field_of(x))
        yield _Result("cast", arch, lambda: vector.cast(bits(x)))
        yield _Result("stoch_rnd", arch, lambda: vector.round_bfloat16(x))
        yield _Result("store_bf16", arch, lambda: vector.store_bfloat16(x))
        yield _Result("store_fp32", arch, lambda: vector.store_float32(x))
        if arch == "blackhole":
            yield _Result("arecip_bh_only", arch, lambda: vector.approximate_reciprocal(x))

    for arch in ARCHES:
        yield from on(arch)
