"""One row in its family's file and one signature make a kernel: a new one is used everywhere at once."""

from __future__ import annotations

import runpy
from dataclasses import replace

import pytest
import torch

import proveout
from proveout import ttnn
from proveout.check.steps import compare_steps
from proveout.check.thresholds import threshold
from proveout.chip.specs import CHIPS
from proveout.chip.time import device_op_time
from proveout.compiler.dump import program_nodes
from proveout.compiler.memory.split import split
from proveout.engine.snapshot import save_calls
from proveout.kernels import cuts, eltwise, signatures
from proveout.kernels.circular import held_by
from proveout.kernels.cost import circular_bytes, memory_over_time, step_device_ops, step_times
from proveout.kernels.device_ops import device_ops
from proveout.kernels.faithful.settings import plain
from proveout.kernels.op_codes import op_code
from proveout.kernels.row import FLOAT, Faithful, Kernel, one_op
from proveout.kernels.table import infer, kernels, specs_of
from proveout.ops import pointwise
from proveout.ops.table import Op, ops
from proveout.program import verify
from proveout.recording import Recorded
from proveout.report.perf.sheet import make_sheet
from proveout.report.script import write_script
from proveout.types import Settings

NAME, L1_BYTES = "ttnn.brand_new", 5 * 2048
ROW = Kernel(
    NAME,
    lambda input_tensor: torch.special.i0e(input_tensor),
    eltwise.vector_work,
    "unary",
    one_op("unary", "BrandNew", buffers=lambda op, chip: L1_BYTES),
    FLOAT,
    Faithful(lambda name, compute, input_tensor: torch.full_like(input_tensor, 0.5), plain()),
    cut=cuts.elementwise,
)
SIGNATURE = "(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor"
N150 = CHIPS["n150"]


@pytest.fixture(autouse=True)
def row(monkeypatch):
    """Its two entries, and the ATen op that becomes it."""
    caches = (kernels, signatures.signatures, signatures.parameters, ops)
    monkeypatch.setattr(eltwise, "KERNELS", [*eltwise.KERNELS, ROW])
    monkeypatch.setitem(signatures._read("ttnn_api")["signatures"], NAME, [SIGNATURE])
    i0e = Op("aten.special_i0e.default", lambda b, self: b.call(NAME, input_tensor=self))
    monkeypatch.setattr(pointwise, "OPS", [*pointwise.OPS, i0e])
    torch._dynamo.reset()
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.special.i0e(x + 2) * 2


X = torch.linspace(0.1, 4, 64 * 96).reshape(64, 96)


def compiled(**settings):
    return proveout.compile(Model(), (X,), settings={"precision": "bfloat16", "verify": True, **settings})


@pytest.fixture
def program():
    return compiled().program


@pytest.fixture
def step(program):
    (step,) = (s for s in program.body if s.kernel == NAME)
    return step


def test_a_model_compiles_to_it_and_computes_what_eager_computes():
    model = compiled()
    assert model.coverage.host_share == 0
    torch.testing.assert_close(model(X), Model()(X), rtol=0.02, atol=0.02)
    made = next(s.outputs[0] for s in model.program.body if s.kernel == NAME)
    assert [c.passed for c in compare_steps(model, (X,), {}) if made in c.name] == [True]


def test_its_faithful_numbers_are_its_own():
    assert torch.equal(compiled(numerics="faithful", verify=False)(X), torch.ones_like(X))  # 0.5 each, times 2


def test_it_has_a_time_device_operations_and_an_op_code(program, step):
    (op,) = step_device_ops(step, program.specs, N150, Settings())
    assert (op.family, op.code) == ("unary", "BrandNew")
    (time,) = (t for t in step_times(program, N150, Settings()) if t.step is step)
    assert 0 < time.low_ns <= time.ns <= time.high_ns
    sheet = make_sheet("x", [Recorded("sim:n150", N150, Settings(), program)])
    assert [r.code for r in sheet.device_rows if r.step is step] == ["BrandNewDeviceOperation"]


def test_a_row_of_a_name_and_a_meaning_has_them_too(program, step):
    least = Kernel(NAME, ROW.meaning)
    specs, outputs = specs_of(step, program.specs), (program.specs[step.outputs[0]],)
    (op,) = device_ops(least, specs, outputs, least.work(specs, outputs), "HiFi2")
    assert op_code(op) == "BrandNewDeviceOperation"
    assert device_op_time(op, N150).ns > 0
    assert held_by(op, N150).circular == 4 * 2048  # two pages in, two out


def test_its_buffers_are_counted_in_l1(program, step):
    assert circular_bytes(step, program.specs, N150) == L1_BYTES
    (at,) = (m for m in memory_over_time(program, N150) if m.step is step)
    assert at.circular == L1_BYTES


def test_it_is_divided_where_it_does_not_fit(program):
    tiny = replace(N150, grid=(1, 1), dram_banks=1, trace_region=0, dram_bank_bytes=8 * 2048)
    after = split(program, tiny)
    verify(after, infer)
    assert sum(s.kernel == NAME for s in after.body) > 1


def test_passes_take_it_for_what_its_kind_is():
    """A permutation sinks below it and meets its inverse."""

    class Turned(torch.nn.Module):
        def forward(self, x):
            return torch.special.i0e(x.permute(1, 0)).permute(1, 0)

    body = proveout.compile(Turned(), (X,), settings={"precision": "bfloat16"}).program.body
    assert NAME in {s.kernel for s in body}
    assert "ttnn.permute" not in {s.kernel for s in body}


def test_it_has_a_threshold_and_a_box(program):
    assert threshold(NAME).pcc == threshold("ttnn.relu").pcc
    assert [n.place for n in program_nodes(program) if n.label == NAME] == ["device"]


def test_an_exported_script_calls_it_and_reproduces_the_outputs(tmp_path, capsys):
    (folder,) = save_calls(compiled(), (X,), {}, tmp_path)
    script = write_script(folder)
    assert f"{NAME}(" in script.read_text()
    runpy.run_path(str(script), run_name="__main__")
    assert "as compiled" in capsys.readouterr().out


def test_hand_written_ttnn_can_call_it():
    device = ttnn.open_device(device_id=0)
    x = ttnn.from_torch(X, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    found = ttnn.to_torch(ttnn.brand_new(x))
    torch.testing.assert_close(found.float(), torch.special.i0e(X), rtol=0.03, atol=0.03)
    ttnn.close_device(device)
