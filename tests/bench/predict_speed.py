"""How long predicting takes: `python tests/bench/predict_speed.py`.

A Program of 10,000 Steps, once with a dozen different shapes, as a deep model has, and once with no shape twice (the
aim is under a second of processor time); and tables of 10,000 published rows, as `proveout devices predict` reads
them (two seconds). The process's own clock is read, so other work on the machine does not count.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

from proveout.chip.predict import predict_table
from proveout.chip.specs import CHIPS
from proveout.kernels.cost import program_time, step_times
from proveout.kernels.table import kernels
from proveout.program import Program, Ref, Step
from proveout.types import DRAM, Settings, TensorSpec

STEPS, LIMIT_S = 10_000, 1.0
ROWS, TABLE_LIMIT_S = 10_000, 2.0
TABLES = ("unary_exp", "op_profiles", "matmul_sweeps", "matmul_height_sharded")


def program(shapes: int) -> Program:
    """Product, sum, softmax, transpose, over and over, on `shapes` different lengths."""
    specs: dict[str, TensorSpec] = {}
    body: list[Step] = []
    for block in range(STEPS // 4):
        length = 32 * (1 + block % shapes)
        a, w, y, z, s, p = (f"{name}{block}" for name in "awyzsp")
        for name in (a, y, z, s):
            specs[name] = TensorSpec((1, length, 768), "bfloat16", "tile", DRAM)
        specs[w] = TensorSpec((768, 768), "bfloat16", "tile", DRAM)
        specs[p] = TensorSpec((1, 768, length), "bfloat16", "tile", DRAM)
        body += [
            Step("ttnn.matmul", (("input_tensor_a", Ref(a)), ("input_tensor_b", Ref(w))), (y,)),
            Step("ttnn.add", (("input_tensor_a", Ref(y)), ("input_tensor_b", Ref(a))), (z,)),
            Step("ttnn.softmax", (("input_tensor", Ref(z)), ("dim", -1)), (s,)),
            Step("ttnn.permute", (("input_tensor", Ref(s)), ("dims", (0, 2, 1))), (p,)),
        ]
    return Program("deep", "ttnn", (), (), (), (), (), tuple(body), specs)


def table(folder: Path, name: str) -> Path:
    """A published table, over and over."""
    text = gzip.decompress((resources.files("proveout.chip") / "data" / f"{name}.csv.gz").read_bytes()).decode()
    header, *lines = csv.reader(io.StringIO(text))
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *(lines * (ROWS // len(lines) + 1))[:ROWS]])
    return path


def main() -> int:
    kernels()
    slow = False
    for words, shapes in (("12 shapes", 12), ("no shape twice", STEPS)):
        made, settings = program(shapes), Settings()
        wall, started = time.perf_counter(), time.process_time()
        program_time(step_times(made, CHIPS["n150"], settings), settings)
        spent = time.process_time() - started
        slow |= spent >= LIMIT_S
        print(f"{STEPS:,} Steps, {words}: {spent:.2f} s of processor, {time.perf_counter() - wall:.2f} s of wall")
    with tempfile.TemporaryDirectory() as folder:
        for name in TABLES:
            path = table(Path(folder), name)
            wall, started = time.perf_counter(), time.process_time()
            rows = predict_table(path).rows
            spent = time.process_time() - started
            slow |= spent >= TABLE_LIMIT_S
            print(f"{rows:,} rows of {name}: {spent:.2f} s of processor, {time.perf_counter() - wall:.2f} s of wall")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
