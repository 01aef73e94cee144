"""Can fast's PCC be trusted? Both modes against one reference, where they differ, and the erratum found by its Step."""

from __future__ import annotations

import json
from dataclasses import replace
from textwrap import dedent

import pytest
import torch
from torch import nn

import proveout
from proveout.capture import watch
from proveout.check import compare_steps, trust
from proveout.coding import from_json, to_json
from proveout.columns.table import row
from proveout.kernels.arithmetic import matrix, products
from proveout.kernels.arithmetic.errata import counting
from proveout.kernels.arithmetic.matrix import Unit
from proveout.prove import prove_here
from proveout.report.tables.trust import of_record, sentences
from proveout.types import Comparison, Job, Origin, Record, Settings, StepGap, Trust

FAITHFUL = Settings(precision="bfloat16", numerics="faithful")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)


def output(pcc, name="output", passed=None, threshold=0.99):
    return Comparison("output", name, pcc, None, None, threshold, pcc >= threshold if passed is None else passed)


# ---- the rule ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fast", "faithful", "trusted", "told"),
    [
        (0.9999, 0.9990, True, "PCC 0.999900 fast, 0.999000 faithful: 0.0009 apart, and fast's is 0.0099 above 0.99"),
        (0.9999, 0.9899, False, "fast passes and faithful fails"),
        (0.9890, 0.9920, False, "fast fails and faithful passes"),
        (0.9999, 0.9940, False, "less than 2 times as much: other inputs may fail where fast passes"),
        (0.5, 0.45, True, "0.49 below 0.99"),
    ],
)
def test_fast_is_trusted_where_both_modes_agree_and_the_threshold_is_far(fast, faithful, trusted, told):
    found = trust.judged([output(fast)], [output(faithful)], [])
    assert found.trusted is trusted
    assert told in found.reason
    assert ("can be" if trusted else "cannot be") in found.verdict


def test_integers_are_trusted_where_both_modes_have_them_right_or_wrong():
    same = trust.judged([output(None, passed=True)], [output(None, passed=True)], [])
    assert same.trusted
    other = trust.judged([output(None, passed=True)], [output(None, passed=False)], [])
    assert other.trusted is False


def test_the_worst_output_is_told_and_none_says_nothing():
    found = trust.judged([output(0.9999, "a"), output(0.9999, "b")], [output(0.9999, "a"), output(0.9, "b")], [])
    assert found.reason.startswith("output b: ")
    assert trust.judged([], [], []).trusted is None


def test_a_large_model_is_skipped_with_the_estimate():
    assert trust.too_long(2e9) is None
    skipped = trust.too_long(2e11)
    assert skipped.trusted is None
    assert skipped.reason.startswith("the chip's own rules would take about 300 s here (100 billion products)")
    assert "--set numerics=faithful" in skipped.reason


def test_erratum_hits_are_told_by_module():
    layer = StepGap("ttnn.linear", Origin(module="layer.7"), 0.1, 4)
    other = StepGap("ttnn.matmul", Origin(node="mm_3"), None, 1)
    said = sentences(Trust(True, "because", (), (layer, other), (layer, other)))
    assert said[1] == (
        "on the same operands the modes differ most in layer.7 (ttnn.linear, relative L2 0.1), mm_3 (ttnn.matmul, "
        "not finite in the same places)"
    )
    assert said[2] == "5 sums hit tt-metal#38306: 4 in layer.7 (ttnn.linear), 1 in mm_3 (ttnn.matmul)"


# ---- models ------------------------------------------------------------------------------------------------------


class Hit(nn.Module):
    """The second layer's first output is 1 - 1 - 2^-23, which spoils a float32 destination on Wormhole."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(32, 32, bias=False), nn.Linear(32, 2, bias=False)
        with torch.no_grad():
            self.body.weight.copy_(torch.eye(32))
            self.head.weight.zero_()
            self.head.weight[0, 0], self.head.weight[0, 16], self.head.weight[0, 24] = 1.0, -1.0, -(2.0**-23)
            self.head.weight[1] = 0.125

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize(("device", "hits"), [("sim:n150", 4), ("sim:p150", 0)])
def test_the_erratum_is_counted_where_it_is_hit(device, hits):
    model, x = Hit().eval(), torch.ones(4, 32)
    compiled = proveout.compile(model, (x,), device=device, settings=Settings(precision="model", numerics="faithful"))
    gaps = trust.Gaps()
    compare_steps(compiled, (x,), {}, gaps)
    assert [(g.place, g.errata) for g in gaps.steps if g.errata] == ([("head", hits)] if hits else [])
    faithful = compiled(x)
    with compiled.in_numerics("fast"):
        fast = compiled(x)
    assert torch.allclose(fast, model(x))
    assert bool((faithful[:, 0] == -16).all()) == bool(hits)
    assert torch.equal(compiled(x), faithful)  # the mode is back


@pytest.mark.parametrize("way", [products.matmul, products.in_torch, matrix.matmul])
def test_both_ways_to_multiply_count_the_same_hits(way):
    row = torch.zeros(1, 3, 32)
    row[:, 1:, 0], row[:, 1:, 16], row[:, 1:, 24] = 1.0, -1.0, -(2.0**-23)
    with counting() as around, counting() as inner:
        way(row, torch.ones(1, 32, 2), Unit("wormhole", 4, True))
        way(row, torch.ones(1, 32, 2), Unit("wormhole", 4, False))
        way(row, torch.ones(1, 32, 2), Unit("blackhole", 4, True))
    assert (inner.hits, around.hits) == (4, 4)


SCRIPT = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(96, 64), nn.GELU(), nn.Linear(64, 8)).eval()
    model(torch.randn(4, 96))
"""


def proven(tmp_path, settings):
    path = tmp_path / "model.py"
    path.write_text(dedent(SCRIPT))
    (found,), _ = watch(path, "")
    return prove_here(Job(found.workload, settings=settings, do=("check",)))


def test_a_faithful_check_leaves_its_verdict_in_the_record(tmp_path):
    record = proven(tmp_path, FAITHFUL)
    assert (record.status, record.trust.trusted) == ("passed", True)
    (seen,) = record.trust.outputs
    assert seen.faithful_pcc == record.pcc
    assert seen.fast_pcc != seen.faithful_pcc
    assert {g.place for g in record.trust.steps} >= {"1", "2"}  # the first is fused with its GELU
    assert row(record).fast_trusted is True
    again = from_json(Record, json.loads(json.dumps(to_json(record))))
    assert again.trust == record.trust
    assert of_record(record)[0].startswith("model: fast's PCC can be trusted for this model: ")


def test_a_fast_check_says_nothing_of_it_and_old_records_have_none(tmp_path):
    record = proven(tmp_path, replace(FAITHFUL, numerics="fast"))
    assert record.trust is None
    assert row(record).fast_trusted is None
    assert of_record(record) == []
    old = to_json(record)
    del old["trust"]
    assert from_json(Record, json.loads(json.dumps(old))).trust is None
