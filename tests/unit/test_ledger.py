"""The fallback ledger: what each host op causes, what converting it would save, and what to do about it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import proveout
from proveout.compiler.fixes import KnownFix, cheapest_fix, family_for, kernel_for
from proveout.engine.graph import SIZES_FROM_DATA
from proveout.kernels.cost import program_ns
from proveout.kernels.embedding import TABLE_DTYPE
from proveout.ops.indexing import MASK_INDEX
from proveout.ops.matmul import INEXACT_PRODUCT
from proveout.reasons import HEAD_SIZE, NO_ROW, NOT_A_DTYPE, UNPROVEN, Reason


@pytest.fixture(autouse=True)
def fresh(without_rows):
    torch._dynamo.reset()
    torch.manual_seed(0)
    without_rows("aten.lgamma.default", "aten.special_i0e.default")


class Between(nn.Module):
    """Two linears with something between them."""

    def __init__(self, between):
        super().__init__()
        self.first, self.second, self.between = nn.Linear(64, 64), nn.Linear(64, 64), between

    def forward(self, x):
        return self.second(self.between(self.first(x)))


def ledger(between, x=None, **settings):
    compiled = proveout.compile(Between(between).eval(), torch.randn(32, 64) if x is None else x, settings=settings)
    return compiled, {line.aten.split(".")[1]: line for line in compiled.fallbacks}


def test_a_round_trip_belongs_to_the_op_that_makes_it():
    compiled, lines = ledger(torch.special.i0e)
    line = lines["special_i0e"]
    assert (line.count, line.num_transfers, line.saved_transfers) == (1, 2, 2)
    assert line.transfer_bytes == 2 * 32 * 64 * 4
    assert compiled.coverage.num_transfers == 4
    assert line.transfer_share == 0.5
    assert line.time_share == pytest.approx(line.transfer_ns / compiled.plan.total_ns)
    assert line.sources[0].startswith(__file__)
    assert line.nodes == ("special_i0e",)


def test_what_converting_saves_is_the_difference_that_converting_makes(without_rows):
    """Against a real second compilation: the same model where the op has a row, and where it has none."""
    converted, lines = ledger(torch.neg, trace=True)
    assert not lines
    torch._dynamo.reset()
    without_rows("aten.neg.default")
    host, lines = ledger(torch.neg, trace=True)
    line = lines["neg"]
    assert line.saved_transfers == host.coverage.num_transfers - converted.coverage.num_transfers == 2
    kernel = next(t for t in converted.plan.steps if t.step.kernel == "ttnn.neg")
    becomes_ns = program_ns([kernel], converted.settings)  # the kernel that the op becomes is not in the saving
    assert line.saved_ns == host.plan.total_ns - (converted.plan.total_ns - becomes_ns)


def test_one_of_two_neighbours_alone_saves_nothing_and_both_save_the_trip():
    _, lines = ledger(lambda x: torch.special.i0e(torch.lgamma(x)))
    for name, other in (("lgamma", "special_i0e"), ("special_i0e", "lgamma")):
        assert lines[name].num_transfers == 1
        assert (lines[name].saved_transfers, lines[name].saved_ns) == (0, 0)
        assert lines[name].neighbours == (f"aten.{other}.default",)
        assert lines[name].together_transfers == 2
        assert lines[name].together_ns > 0


def test_the_op_that_would_save_the_most_comes_first():
    def between(x):
        large = torch.special.i0e(x.repeat(1, 16))[:, :64]
        return torch.lgamma(large + 1)

    compiled, lines = ledger(between)
    assert [line.aten for line in compiled.fallbacks] == ["aten.special_i0e.default", "aten.lgamma.default"]
    assert lines["special_i0e"].saved_ns > lines["lgamma"].saved_ns > 0


def test_with_two_queues_transfers_that_hide_behind_kernels_cost_nothing():
    _, lines = ledger(torch.special.i0e, queues=2)
    assert lines["special_i0e"].transfer_ns > 0
    assert lines["special_i0e"].saved_ns == 0


def test_an_input_that_the_host_reads_would_have_to_cross_instead(without_rows):
    without_rows("aten.embedding.default")
    model = nn.Sequential(nn.Embedding(100, 64), nn.Linear(64, 64)).eval()
    compiled = proveout.compile(model, torch.randint(0, 100, (2, 32)))
    (line,) = compiled.fallbacks
    assert (line.num_transfers, line.saved_transfers) == (1, 0)
    assert 0 < line.saved_ns < line.transfer_ns, "indices are smaller than the rows they pick"


def test_what_runs_once_costs_nothing_and_needs_no_fix():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(64, 64))

        def forward(self, x):
            return x @ torch.special.i0e(self.weight)

    (line,) = proveout.compile(Weighted().eval(), torch.randn(32, 64)).fallbacks
    assert (line.num_transfers, line.saved_ns) == (0, 0)
    assert line.fix.startswith("none needed: it depends on weights alone")


def test_several_graphs_are_one_ledger():
    class Broken(nn.Module):
        def forward(self, x):
            x = torch.special.i0e(x * 2) * 3
            torch._dynamo.graph_break()
            return torch.special.i0e(x * 2) * 3

    compiled = proveout.compile(Broken().eval(), torch.rand(32, 64))
    (line,) = compiled.fallbacks
    assert len(compiled.graphs) == 2
    assert (line.count, line.num_transfers, line.saved_transfers) == (2, 4, 4)
    assert len(line.sources) == 2
    assert line.time_share == pytest.approx(line.transfer_ns / sum(p.total_ns for p in compiled.plans))


def test_a_copy_for_eagers_strides_belongs_to_its_op():
    def between(x):
        return torch.lgamma(x.t().abs() + 1).t()

    compiled, lines = ledger(between, torch.randn(64, 64))
    assert sum(step.on_host for step in compiled.program.body) > 1
    assert set(lines) == {"lgamma"}
    assert (lines["lgamma"].num_transfers, lines["lgamma"].saved_transfers) == (2, 2)


def test_on_a_device_that_is_not_modelled_nothing_is_modelled():
    compiled = proveout.compile(Between(torch.special.i0e).eval(), torch.randn(32, 64), device="cpu")
    for line in compiled.fallbacks:
        assert (line.transfer_ns, line.time_share, line.saved_ns, line.together_ns) == (None,) * 4


@pytest.mark.parametrize(
    ("aten", "reason", "words"),
    [
        ("aten.lgamma.default", NO_ROW(), "row for aten.lgamma.default in ops/unary.py"),
        ("aten.lgamma.default", NO_ROW(), "ttnn has ttnn.lgamma"),
        ("aten.linalg_inv_ex.default", NO_ROW(), "from other kernels"),
        ("aten.nonzero.default", NO_ROW(), "shape depends on data"),
        ("aten.index.Tensor", MASK_INDEX(dtype="bool"), "torch.where"),
        ("aten._local_scalar_dense.default", NO_ROW(), "move it out of the model"),
        ("aten.bernoulli.p", NO_ROW(), "pass the noise as an input"),
        ("aten.add.Tensor", UNPROVEN(dtype="int64"), "to the model as int32"),
        ("aten.add.Tensor", NOT_A_DTYPE(dtype="float64"), "instead of float64"),
        ("aten.embedding.default", TABLE_DTYPE(dtype="float32"), "--precision bfloat16"),
        (
            "aten.scaled_dot_product_attention.default",
            HEAD_SIZE(kernel="ttnn SDPA", multiple=32, size=40),
            "pad the head size 40 to 64",
        ),
        ("aten._assert_async.msg", NO_ROW(), "leave it out of the compiled model"),
        ("mylib.op.default", NO_ROW(), "a custom op"),
        ("aten.mm.default", INEXACT_PRODUCT(dtype="int64"), "in ops/matmul.py"),
    ],
)
def test_the_fix_is_a_sentence_that_says_what_to_change(aten, reason, words, without_rows):
    if reason == NO_ROW():
        without_rows(aten)
    assert words in cheapest_fix(KnownFix(aten, reason))


def test_every_reason_has_some_fix_and_a_whole_graph_in_eager_has_its_own():
    assert cheapest_fix(KnownFix("aten.relu.default", Reason("a kind that nobody foresaw")))
    eager = KnownFix("aten.relu.default", SIZES_FROM_DATA(error="X"), eager_graph=True)
    assert "fixed shapes" in cheapest_fix(eager)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("_softmax", "ttnn.softmax"), ("gelu_backward", "ttnn.gelu_bw"), ("lgamma", "ttnn.lgamma"), ("_fft_r2c", None)],
)
def test_a_kernel_is_found_by_the_ops_name(name, kernel):
    assert kernel_for(name) == kernel


def test_the_family_is_that_of_the_nearest_op():
    assert (family_for("softmax"), family_for("special_i0e"), family_for("_fft_r2c")) == ("norm", "unary", None)


@pytest.mark.parametrize(
    ("before", "fix", "after"),
    [
        (((lambda x: x + 1), torch.ones(32, 64, dtype=torch.long), "model"), "give it to the model as int32",
         ((lambda x: x + 1), torch.ones(32, 64, dtype=torch.int32), "model")),
        (((lambda x: torch.relu(x.long() + 1)), torch.ones(32, 64), "model"), "`.to(torch.int32)`",
         ((lambda x: torch.relu(x.to(torch.int32) + 1)), torch.ones(32, 64), "model")),
        (((lambda x: torch.relu(x)), torch.ones(32, 64, dtype=torch.float64), "model"), "cast to float32",
         ((lambda x: torch.relu(x)), torch.ones(32, 64), "model")),
    ],
    ids=["int32 input", "int32 cast", "float32"],
)  # fmt: skip
def test_doing_what_the_fix_says_converts_the_op(before, fix, after):
    class Model(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x)

    def hosted(case):
        torch._dynamo.reset()
        function, x, precision = case
        return proveout.compile(Model(function).eval(), (x,), settings={"precision": precision}).fallbacks

    lines = hosted(before)
    assert any(fix in line.fix for line in lines), [line.fix for line in lines]
    assert not hosted(after)
