"""A verb, a device, an op and a fusion are one place each: what is put there works everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from additions import DEVICE, FUSION, OP, VERB

SELFTEST = Path(__file__).parents[2] / "corpora" / "selftest"
EXTENDED = """
import importlib, sys
for package in sys.argv.pop(1).split(","):
    module = importlib.import_module(f"proveout.{package}")
    module.__path__.append(f"{sys.argv[1]}/{package.replace('.', '/')}")
del sys.argv[1]
"""
COMMAND_LINE = EXTENDED + "from proveout.cli import main; sys.exit(main())"


def put(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def python(program: str, *words: object, path: Path | None = None, cwd: Path | None = None) -> str:
    paths = [str(path)] if path else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_verb_is_one_file(tmp_path: Path) -> None:
    put(tmp_path, VERB)
    assert python(COMMAND_LINE, "cli.verbs", tmp_path, "greet", "Ada") == "Hello, Ada.\n"
    assert "greet     Say hello to somebody." in python(COMMAND_LINE, "cli.verbs", tmp_path, "--help")
    assert "proveout greet Ada" in python(COMMAND_LINE, "cli.verbs", tmp_path, "greet", "--help")


def test_help_imports_no_verb() -> None:
    program = (
        "import sys; from proveout.cli import main; main(['--help']); print([m for m in sys.modules if 'verbs.' in m])"
    )
    assert python(program).splitlines()[-1] == "[]"


DEVICE_PROGRAM = """
import contextlib, io, json, sys
from proveout.cli import main
def proveout(*words):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([*words, "--json"]) == 0
    return json.loads(out.getvalue())
script, folder = sys.argv[1:]
listed = proveout("devices")["devices"]
(record,) = proveout("benchmark", script, "--device", "dummy", "--iterations", "3", "--cache-dir", folder)["records"]
rows = proveout("report", "--cache-dir", folder, "-o", folder + "/out")["records"]
import torch, proveout as prove
model = torch.nn.Linear(4, 2)
compiled = prove.compile(model, torch.ones(1, 4), device="dummy")
same = torch.equal(compiled(torch.ones(1, 4)), model(torch.ones(1, 4)))
print(json.dumps({"listed": listed, "record": record, "rows": rows, "compiled": [compiled.device, same]}))
"""


@pytest.mark.slow
def test_a_device_is_one_entry(tmp_path: Path) -> None:
    put(tmp_path, DEVICE)
    put(tmp_path / "dummy_device-1.0.dist-info", {
        "METADATA": "Metadata-Version: 2.1\nName: dummy-device\nVersion: 1.0\n",
        "entry_points.txt": "[proveout.devices]\ndummy = dummy_device:info\n",
    })  # fmt: skip
    said = json.loads(python(DEVICE_PROGRAM, SELFTEST / "linear.py", tmp_path / "cache", path=tmp_path))
    (listed,) = [one for one in said["listed"] if one["name"] == "dummy"]
    assert (listed["available"], listed["times"]) == (True, "measured")
    assert (said["record"]["status"], said["record"]["device"]) == ("passed", "dummy")
    assert said["record"]["pcc"] > 0.999
    assert [row["device"] for row in said["rows"]] == ["dummy"]
    assert "dummy" in (tmp_path / "cache" / "out" / "report.md").read_text()
    assert said["compiled"] == ["dummy", True]


OP_PROGRAM = (
    EXTENDED
    + """
import torch, proveout
class Net(torch.nn.Module):
    def forward(self, x, y):
        return torch.hypot(x, y)
x, y = torch.randn(4, 32), torch.randn(4, 32)
compiled = proveout.compile(Net(), (x, y), device="sim", settings={"precision": "model"})
torch.testing.assert_close(compiled(x, y), torch.hypot(x, y))
(op,) = compiled.coverage.ops
print(op.aten, op.state)
from proveout.cli import main
main(["ops", "hypot"])
from proveout.ops.table import ops
print(len(list(ops()["aten.hypot.default"].samples())), "sample")
"""
)


def test_an_aten_op_is_one_file(tmp_path: Path) -> None:
    said = python(OP_PROGRAM, "ops", put(tmp_path, OP))
    assert said.startswith("aten.hypot.default converted")
    assert "ttnn.sqrt" in said
    assert said.endswith("1 sample\n")


FUSION_PROGRAM = (
    EXTENDED
    + """
import torch, proveout
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(torch.neg(x)))
x = torch.randn(32, 32)
compiled = proveout.compile(Net(), x, device="sim", settings={"verify": True})
torch.testing.assert_close(compiled(x), Net()(x))
print(sum(step.kernel == "ttnn.relu" for step in compiled.program.body))
print([op.reason for op in compiled.coverage.ops])
"""
)


def test_a_fusion_is_one_file(tmp_path: Path) -> None:
    relus, reasons = python(FUSION_PROGRAM, "compiler.program_passes", put(tmp_path, FUSION)).splitlines()
    assert relus == "1"
    assert "fused into ttnn.relu by fuse dummy" in reasons


@pytest.mark.parametrize("files", [VERB, DEVICE, OP, FUSION], ids=["verb", "device", "op", "fusion"])
def test_it_is_one_file(files: Mapping[str, str]) -> None:
    assert len(files) == 1
