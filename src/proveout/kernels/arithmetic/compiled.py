"""Products by the matrix unit's rules in compiled C (`matrix.c`), where a C compiler is there: the same bits in a
fraction of the time. A process that has enough to multiply builds it for itself: code that lay in a folder of results
would be a stranger's."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from proveout.kernels.arithmetic import errata
from proveout.kernels.arithmetic.bits import Tensor, bits, floats
from proveout.kernels.arithmetic.matrix import TILE, Unit, pattern_of
from proveout.kernels.arithmetic.operands import Operand, Rules, padded, rules

SOURCE = Path(__file__).with_name("matrix.c")
FLAGS = ("-O3", "-march=native", "-fwrapv", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
BUILD_LIMIT_S = 60.0
WIDTH = 32
"""Columns that are computed together."""
PIECE = 32
"""Rows of a piece of work."""
ALONE = 1 << 20
"""Multiplications that are not worth a second thread."""
WORTH_BUILDING = 1 << 28
"""Multiplications that torch takes about as long for as a compiler does to build the code."""
_asked_for = 0


class _Rules(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in Rules._fields]


def is_worthwhile(num_products: int) -> bool:
    """Whether a process that now has so many more multiplications to do computes them by compiled code."""
    global _asked_for
    _asked_for += num_products
    return _asked_for >= WORTH_BUILDING and library() is not None


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled code; None where it cannot be had."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return None
    try:
        with tempfile.TemporaryDirectory() as folder:  # what is loaded stays when its file goes
            path = Path(folder) / "matrix.so"
            _build(compiler, path)
            loaded = ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError):
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_long
    loaded.proveout_matmul.argtypes = [ctypes.c_int, _Rules, *[pointer] * 5, *[number] * 3]
    loaded.proveout_matmul.restype = number
    loaded.proveout_operand.argtypes = [pointer, number, ctypes.c_int, ctypes.c_int, pointer, pointer]
    loaded.proveout_operand.restype = None
    return loaded


def _build(compiler: str, path: Path) -> None:
    command = [compiler, *FLAGS, "-o", str(path), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=BUILD_LIMIT_S)


def matmul(in0: Tensor, in1: Tensor, unit: Unit, start: Tensor | None = None) -> Tensor:
    """`matrix.matmul`: pieces of rows on as many threads as torch would take."""
    code = library()
    assert code is not None
    batch, rows, columns = max(in0.shape[0], in1.shape[0]), in0.shape[1], in1.shape[2]
    src_a, src_b = _operand(code, in1, unit, src_a=True), _operand(code, in0, unit, src_a=False)
    wide = src_a.parts.shape[2]
    dest = torch.zeros(batch, rows, wide, dtype=torch.int32)
    if start is not None:
        dest[..., :columns] = bits(start)
    how = _Rules(*rules(unit))

    def piece(i: int, top: int) -> int:
        pointers = (*_at(src_a, i, 0), *_at(src_b, i, top * src_b.parts.shape[2]), dest[i, top:].data_ptr())
        num_rows, tiles = min(PIECE, rows - top), src_b.parts.shape[2] // TILE
        return int(code.proveout_matmul(unit.phases, how, *pointers, num_rows, wide, tiles))

    jobs = [(i, top) for i in range(batch) for top in range(0, rows, PIECE)]
    work = batch * rows * wide * src_b.parts.shape[2]
    threads = min(torch.get_num_threads(), len(jobs)) if work > ALONE else 1
    if threads == 1:
        hits = sum(piece(*job) for job in jobs)
    else:
        with ThreadPoolExecutor(threads) as pool:
            hits = sum(pool.map(lambda job: piece(*job), jobs))
    errata.note(hits)
    return floats(dest[..., :columns])


def _operand(code: ctypes.CDLL, x: Tensor, unit: Unit, src_a: bool) -> Operand:
    """`operands.operand`, in one pass."""
    pattern = pattern_of(padded(x, src_a, WIDTH if src_a else 1), unit).contiguous()
    out = Operand(torch.empty_like(pattern), torch.empty_like(pattern))
    code.proveout_operand(
        pattern.data_ptr(), pattern.numel(), src_a, unit.half, out.exponents.data_ptr(), out.parts.data_ptr()
    )
    return out


def _at(x: Operand, batch: int, offset: int) -> tuple[int, int]:
    """Where the exponents and the parts of a matrix lie, from an element on."""
    bytes_on = 4 * (batch * x.batch_stride + offset)
    return x.exponents.data_ptr() + bytes_on, x.parts.data_ptr() + bytes_on
