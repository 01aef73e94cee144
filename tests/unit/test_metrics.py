"""The metrics, one claim a line of their definition: counted on real compilations, not on Records made by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import proveout
from proveout.chip.memory import bytes_per_bank
from proveout.chip.specs import CHIPS
from proveout.compiler.decompositions import decompositions
from proveout.prove import prove_here
from proveout.types import DRAM, L1, Comparison, Job, Settings, TensorSpec, Workload


@pytest.fixture(autouse=True)
def fresh(without_rows):
    torch._dynamo.reset()
    torch.manual_seed(0)
    without_rows("aten.lgamma.default", "aten.special_i0e.default")


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def compiled(function, *inputs, **how):
    return proveout.compile(Of(function).eval(), inputs, **how)


def atens(coverage, state=None):
    return sorted(op.aten for op in coverage.ops if state in (None, op.state))


# ---- torch ops before --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_before_counts_nodes_after_our_decompositions_and_unique_counts_overloads():
    found = compiled(lambda x: torch.relu(torch.relu(x) + 1) + x, torch.randn(4, 8)).coverage
    assert atens(found) == ["aten.add.Tensor", "aten.add.Tensor", "aten.relu.default", "aten.relu.default"]
    assert (found.before, found.before_unique) == (4, 2)


def test_what_our_table_decomposes_is_not_counted_itself():
    assert torch.ops.aten.logaddexp.default in decompositions()
    found = compiled(lambda x: torch.logaddexp(x, x + 1), torch.randn(4, 8)).coverage
    assert "aten.logaddexp.default" not in atens(found)
    assert found.before >= 2


def test_getitem_is_not_counted():
    found = compiled(lambda x: sum(torch.topk(x, 2)[:1]), torch.randn(4, 32)).coverage
    assert found.before == len([op for op in found.ops if op.aten.startswith("aten.")])
    assert "aten.topk.default" in atens(found)
    assert not any("getitem" in op.aten or "getitem" in op.node for op in found.ops)


def test_what_passes_remove_still_counts_before():
    def twice(x):
        return (x + 1) * (x + 1) * torch.full((1,), 2.0)

    found = compiled(twice, torch.randn(4, 8)).coverage
    assert found.before == len(found.ops) == 5
    assert len({op.node for op in found.ops}) == 5, "each node once"


def test_all_graphs_count():
    def broken(x):
        x = torch.relu(x)
        torch._dynamo.graph_break()
        return torch.relu(x)

    found = compiled(broken, torch.randn(4, 8)).coverage
    assert (found.num_graphs, found.before, found.before_unique) == (2, 2, 1)
    assert len(found.graph_breaks) == 1
    assert found.graph_breaks[0].startswith(__file__)


# ---- torch ops remain --------------------------------------------------------------------------------------------


def test_remain_counts_the_aten_steps_on_the_host():
    def function(x):
        return torch.special.i0e(torch.special.i0e(torch.lgamma(torch.relu(x))))

    model = compiled(function, torch.randn(4, 8))
    assert (model.coverage.remain, model.coverage.remain_unique) == (3, 2)
    assert sorted(s.kernel for s in model.program.steps if s.on_host) == atens(model.coverage, "host")


def test_copies_for_eagers_strides_are_no_op_of_the_models():
    model = compiled(lambda x: torch.lgamma((x + 1).t()), torch.rand(4, 8))
    assert model.coverage.remain == 1
    helpers = [s for s in model.program.steps if s.on_host and s.kernel != s.origin.aten]
    assert {s.reason for s in helpers} <= {"eager's strides"}


def test_a_graph_that_cannot_be_lowered_remains_in_full():
    def branches(x):
        return torch.cond(x.sum() > 0, torch.relu, torch.neg, (x,)) + 1

    model = compiled(branches, torch.randn(8))
    assert model.coverage.remain == model.coverage.before > 0
    assert model.coverage.num_transfers == 0
    assert {line.transfer_ns for line in model.fallbacks} == {0}
    assert all("whole graph runs in eager" in line.fix for line in model.fallbacks)


def test_what_runs_between_two_graphs_is_told_as_a_graph_break():
    found = compiled(lambda x: x[x > 0].sum() + 1, torch.randn(8)).coverage
    assert found.num_graphs == 2
    assert "Dynamic shape operator" in found.graph_breaks[0]


# ---- to/from device ops ------------------------------------------------------------------------------------------


def model_between(x):
    return torch.relu(torch.special.i0e(x * 2)) + 1


@pytest.mark.parametrize(
    "function",
    [torch.relu, model_between, lambda x: (x + 1, torch.lgamma(x * 2), x.sum())],
    ids=["device", "round trip", "outputs"],
)
def test_transfers_are_those_of_the_body_and_those_counted_at_run_time(function):
    x = torch.rand(4, 8)
    model = compiled(function, x)
    in_body = sum(step.is_transfer for program in model.programs for step in program.body)
    model(x)
    assert model.coverage.num_transfers == in_body == model.num_transfers


def test_transfers_of_weights_do_not_count():
    model = proveout.compile(nn.Linear(32, 32).eval(), torch.randn(4, 32))
    assert sum(step.is_transfer for step in model.program.setup) == 2
    assert model.coverage.num_transfers == 2


# ---- op conversion status ----------------------------------------------------------------------------------------


def test_every_node_has_one_state_and_the_states_add_up():
    def function(x):
        same = (x * 2) + (x * 2)
        return torch.lgamma(same) * torch.ones(8).cumsum(0)

    found = compiled(function, torch.rand(4, 8)).coverage
    states = {state: atens(found, state) for state in ("converted", "host", "removed")}
    assert sum(map(len, states.values())) == found.before
    assert states["host"] == ["aten.lgamma.default"]
    removed = {op.aten: op.reason for op in found.ops if op.state == "removed"}
    assert removed["aten.mul.Tensor"] == "share repeated"
    assert removed["aten.cumsum.default"] == "fold constants"


def test_a_folded_batch_norm_is_removed_and_says_so():
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8)).eval()
    found = proveout.compile(model, torch.randn(1, 4, 8, 8)).coverage
    norm = next(op for op in found.ops if "batch_norm" in op.aten)
    assert (norm.state, norm.reason) == ("removed", "fold batch norm")
    assert "input=f32[1,8,6,6]" in norm.inputs


def test_every_node_says_how_it_was_called():
    def function(x):
        return torch.lgamma(x + 1).clamp(min=0.5) + (x + 1)

    found = compiled(function, torch.rand(4, 8)).coverage
    called = {(op.aten, op.state): op.inputs for op in found.ops}
    assert called["aten.lgamma.default", "host"] == "self=f32[4,8]"
    assert called["aten.add.Tensor", "removed"] == "self=f32[4,8], other=1"
    assert all(op.inputs for op in found.ops)


# ---- run success, accuracy, run time -----------------------------------------------------------------------------

SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU()).eval()
model(torch.randn(4, 32))
"""


@pytest.fixture
def job(tmp_path):
    from proveout.capture import watch

    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    (found,), _ = watch(path, "")
    workload: Workload = found.workload
    return Job(workload, settings=Settings(), do=("run", "benchmark"), iterations=20, warmup=1)


@pytest.mark.slow
def test_run_success_is_compiled_run_and_every_output_within_its_threshold(job, monkeypatch):
    assert prove_here(job).status == "passed"

    def off(outputs, reference, threshold):
        good = Comparison("output", "0", 1.0, 0.0, 0.0, threshold, True)
        return [good, Comparison("output", "1", 0.5, 1.0, 1.0, threshold, False, "PCC 0.5")]

    monkeypatch.setattr("proveout.check.compare_outputs", off)
    record = prove_here(job)
    assert (record.status, record.failure) == ("failed", "numerics")
    assert record.pcc == 0.5, "accuracy is the lowest over the outputs"


@pytest.mark.slow
def test_original_and_compiled_times_keep_their_kinds_and_their_conditions(job):
    record = prove_here(job)
    eager, ours = record.timing("eager"), record.timing("compiled")
    assert (eager.kind, ours.kind) == ("measured", "modelled")
    assert len(eager.samples_ns) == 20
    assert eager.p95_ns is not None
    simulation = record.timing("simulation")
    assert dict(simulation.conditions) == dict(eager.conditions), "same harness, same warm-up"


# ---- memory ------------------------------------------------------------------------------------------------------


def test_peak_sram_counts_whole_tiles():
    """One row of one number costs what a whole tile costs."""
    one, tile = (compiled(torch.neg, torch.randn(n, n)).memory for n in (1, 32))
    assert one == tile
    more = compiled(torch.neg, torch.randn(32 * 64 * 8, 33)).memory
    exact = compiled(torch.neg, torch.randn(32 * 64 * 8, 64)).memory
    assert more == exact


def test_peak_sram_is_the_most_that_lives_at_once_over_all_cores():
    chip = CHIPS["n150"]
    model = compiled(torch.neg, torch.randn(256, 256))
    spec = TensorSpec((256, 256), "float32", "tile", L1)
    assert [model.program.specs[s.outputs[0]] for s in model.program.body if s.outputs][:2] == [spec, spec]
    per_core = 2 * bytes_per_bank(spec, chip) + 4 * 4096  # two tiles of operand, two of result
    assert model.memory.l1_peak_per_core_bytes == per_core
    assert model.memory.l1_peak_bytes == per_core * chip.cores
    assert model.memory.fits


def test_what_lies_in_dram_is_no_sram():
    model = compiled(torch.neg, torch.randn(256, 256), settings={"memory": "dram"})
    assert all(model.program.specs[s.outputs[0]].memory == DRAM for s in model.program.body if s.kernel == "ttnn.neg")
    assert model.memory.l1_peak_per_core_bytes == 4 * 4096  # two tiles of operand, two of result
