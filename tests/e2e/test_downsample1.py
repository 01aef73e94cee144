"""YOLOv4's DownSample1, hand-written in ttnn: run through `import ttnn`, timed, and profiled by `perf -c`."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proveout.compat import PACKAGES

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
FILE = Path(__file__).parent.parent / "data" / "handwritten" / "downsample1.py"
PROVEOUT = str(Path(sys.executable).parent / "proveout")


def test_downsample1_runs_unmodified_and_perf_profiles_its_calls(tmp_path):
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(PACKAGES)]))
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider {FILE}"
    done = subprocess.run(
        [PROVEOUT, "perf", "-n", "downsample1", "-c", command, "--json", "-o", "out"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1 passed" in done.stderr
    (sheet,) = json.loads(done.stdout)["sheets"]
    assert (sheet["device"], sheet["kind"]) == ("sim:n150", "modelled")
    with (tmp_path / sheet["files"]["csv"]).open() as file:
        codes = [row["OP CODE"] for row in csv.DictReader(file)]
    counts = {code: codes.count(f"{code}DeviceOperation") for code in ("Conv2d", "Halo", "Matmul", "Concat", "Unary")}
    assert counts == {"Conv2d": 3, "Halo": 3, "Matmul": 5, "Concat": 1, "Unary": 8}
    assert codes.count("InterleavedToShardedDeviceOperation") == 1  # the image; all else stays in shards
    assert "ShardedToInterleavedDeviceOperation" not in codes
