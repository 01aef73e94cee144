"""The smallest claims from end to end: look here first when everything is red."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch
from torch import nn

import proveout
from proveout.kernels.signatures import signatures


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_importing_proveout_imports_no_torch():
    done = run_python("import sys, proveout; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_values_and_programs_need_no_torch():
    names = "proveout.types, proveout.program, proveout.errors, proveout.isolate, proveout.devices.registry"
    done = run_python(f"import sys, {names}; print('torch' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


SCRIPT = """
import torch, proveout
from types import SimpleNamespace
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return SimpleNamespace(logits=self.linear(x))
model, x = Model().eval(), torch.randn(2, 8)
output = proveout.compile(model, (x,))(x)
"""


@pytest.mark.slow
def test_a_script_that_compiled_a_model_ends_in_silence():
    done = run_python(SCRIPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_public_name_is_there():
    assert all(getattr(proveout, name) is not None for name in proveout.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = proveout.nonsense


@pytest.mark.parametrize("device", ["sim", "sim:p150", "cpu"])
def test_a_linear_layer_computes_what_eager_computes(device):
    model, x = nn.Linear(64, 32).eval(), torch.randn(4, 64)
    compiled = proveout.compile(model, (x,), device=device)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_in_bfloat16_a_linear_layer_is_close_to_eager():
    model, x = nn.Linear(64, 32).eval(), torch.randn(4, 64)
    compiled = proveout.compile(model, (x,), settings={"precision": "bfloat16"})
    with torch.no_grad():
        found, wanted = compiled(x), model(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.05)
    assert not torch.equal(found, wanted)


LINEAR = """\
  input    %arg2_1: f32[4,64] host
  weight   %arg0_1: f32[32,64] host
  weight   %arg1_1: f32[32] host
setup:
  %t: bf16[32,64] tile dram = ttnn.from_torch(tensor=%arg0_1, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
  %t.2: bf16[64,32] tile dram = ttnn.permute(input_tensor=%t, dims=(1, 0))
"""  # noqa: E501


def test_a_program_reads_like_the_calls_it_makes():
    model = nn.Linear(64, 32).eval()
    program = proveout.compile(model, (torch.randn(4, 64),), settings={"precision": "bfloat16"}).program
    first, rest = str(program).split("\n", 1)
    assert re.fullmatch(r"program graph\d+_inference  target ttnn  [0-9a-f]{12}", first)
    assert rest.startswith(LINEAR)
    kernels = [line.split("= ")[-1].split("(")[0].strip() for line in rest.split("body:\n")[1].splitlines()[:-1]]
    assert kernels == ["ttnn.from_torch", "ttnn.linear", "ttnn.deallocate", "ttnn.to_torch", "ttnn.deallocate"]
    assert re.fullmatch(r"return \(%addmm\.\d,\)", rest.splitlines()[-1])


def test_a_steps_name_is_ttnns_own():
    model = nn.Sequential(nn.GELU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Softmax(-1)).eval()
    program = proveout.compile(model, (torch.randn(2, 8),)).program
    kernels = {step.kernel for step in program.steps}
    assert {"ttnn.linear", "ttnn.gelu", "ttnn.layer_norm", "ttnn.softmax"} <= kernels
    assert kernels <= signatures().keys()
