"""Where things happen is chosen by cost: tile or row-major, host or device, as a minimum cut."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from program_text import FETCH, SEND, parse, show

import proveout
from proveout.chip.specs import CHIPS
from proveout.compiler.mincut import PriceGraph
from proveout.compiler.program_passes import layouts
from proveout.devices.resident import Resident
from proveout.kernels.table import infer
from proveout.program import verify
from proveout.types import Settings

CHIP = CHIPS["n150"]


# ---- the cut itself ----------------------------------------------------------------------------------------------

costs = st.integers(0, 9)
ITEMS = "pqrst"
problems = st.tuples(
    st.tuples(*[st.tuples(costs, costs) for _ in ITEMS]),
    st.lists(st.tuples(st.sampled_from(ITEMS), st.sets(st.sampled_from(ITEMS)), costs, costs), max_size=6),
)


def price(on_a, items, values):
    total = sum(a if name in on_a else b for name, (a, b) in zip(ITEMS, items))
    for producer, readers, leaves, enters in values:
        if producer in on_a:
            total += leaves if any(r not in on_a for r in readers) else 0
        else:
            total += enters if any(r in on_a for r in readers) else 0
    return total


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(problems)
def test_no_assignment_is_cheaper_than_the_cut(problem):
    items, values = problem
    cut = PriceGraph()
    for name, (a, b) in zip(ITEMS, items):
        cut.item(name, a, b)
    for value in values:
        cut.value(*value)
    every = itertools.chain.from_iterable(itertools.combinations(ITEMS, n) for n in range(len(ITEMS) + 1))
    assert price(cut.solve(), items, values) == min(price(set(c), items, values) for c in every)


def test_what_is_forbidden_on_one_side_is_on_the_other():
    cut = PriceGraph()
    cut.item("x", cost_a=float("inf"), cost_b=100)
    cut.item("y", cost_b=1)
    cut.value("x", ["y"], 0, 0)
    assert cut.solve() == {"y"}


# ---- layouts -----------------------------------------------------------------------------------------------------

THERE_AND_BACK = f"""
    input x float32 (1, 4, 64, 64)
    %a = ttnn.from_torch(tensor=%x, {SEND})
    %b = ttnn.relu(input_tensor=%a)
    %rows = ttnn.to_layout(tensor=%b, layout=ttnn.ROW_MAJOR_LAYOUT)
    %c = ttnn.slice(input_tensor=%rows, slice_start=(0, 0, 0, 0), slice_end=(1, 2, 64, 64))
    %tiles = ttnn.to_layout(tensor=%c, layout=ttnn.TILE_LAYOUT)
    %d = ttnn.relu(input_tensor=%tiles)
    %y = ttnn.to_torch(tensor=%d, {FETCH})
    return %y
"""


def shown(program):
    return show(program).splitlines()[1:-1]


def chosen(text):
    before = parse(text)
    after = layouts(before, CHIP, Settings())
    verify(after, infer)
    inputs = [torch.randn(before.specs[n].shape) for n in before.inputs]
    runs = [Resident(p).run(inputs).outputs for p in (before, after)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    return after


def test_a_detour_through_row_major_is_not_made_for_a_step_that_takes_either():
    assert shown(chosen(THERE_AND_BACK)) == [
        "%a = ttnn.from_torch(tensor=%x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)",
        "%b = ttnn.relu(input_tensor=%a)",
        "%c = ttnn.slice(input_tensor=%b, slice_start=(0, 0, 0, 0), slice_end=(1, 2, 64, 64))",
        "%d = ttnn.relu(input_tensor=%c)",
        "%y = ttnn.to_torch(tensor=%d, dtype=torch.float32)",
    ]


def test_what_ttnn_refuses_in_tiles_stays_in_rows():
    """Padding at the front is for rows alone, so both conversions have to be."""
    front = THERE_AND_BACK.replace(
        "ttnn.slice(input_tensor=%rows, slice_start=(0, 0, 0, 0), slice_end=(1, 2, 64, 64))",
        "ttnn.pad(input_tensor=%rows, padding=((0, 0), (0, 0), (1, 0), (0, 0)), value=0.0)",
    )
    assert sum("to_layout" in line for line in shown(chosen(front))) == 2


def test_one_conversion_serves_every_reader():
    text = f"""
        input x float32 (1, 4, 64, 64)
        %a = ttnn.from_torch(tensor=%x, {SEND})
        %r1 = ttnn.to_layout(tensor=%a, layout=ttnn.ROW_MAJOR_LAYOUT)
        %b = ttnn.pad(input_tensor=%r1, padding=((0, 0), (0, 0), (1, 0), (0, 0)), value=0.0)
        %r2 = ttnn.to_layout(tensor=%a, layout=ttnn.ROW_MAJOR_LAYOUT)
        %c = ttnn.pad(input_tensor=%r2, padding=((0, 0), (0, 0), (2, 0), (0, 0)), value=0.0)
        %d = ttnn.relu(input_tensor=%a)
        %y = ttnn.to_torch(tensor=%b, {FETCH})
        %z = ttnn.to_torch(tensor=%c, {FETCH})
        %w = ttnn.to_torch(tensor=%d, {FETCH})
        return %y, %z, %w
    """
    assert sum("to_layout" in line for line in shown(chosen(text))) == 1


def test_an_input_comes_in_the_layout_its_readers_want():
    text = f"""
        input x float32 (1, 4, 64, 64)
        %a = ttnn.from_torch(tensor=%x, {SEND})
        %r = ttnn.to_layout(tensor=%a, layout=ttnn.ROW_MAJOR_LAYOUT)
        %b = ttnn.pad(input_tensor=%r, padding=((0, 0), (0, 0), (1, 0), (0, 0)), value=0.0)
        %y = ttnn.to_torch(tensor=%b, {FETCH})
        return %y
    """
    found = shown(chosen(text))
    assert "layout=ttnn.ROW_MAJOR_LAYOUT" in found[0]
    assert not any("to_layout" in line for line in found)


# ---- host or device ----------------------------------------------------------------------------------------------


@torch.library.custom_op("proveout_tests::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


@opaque.register_fake
def _(x):
    return torch.empty_like(x)


class Between(torch.nn.Module):
    """A light op, or a product, between two ops that only the host has."""

    def __init__(self, heavy: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(256, 256) if heavy else None

    def forward(self, x):
        x = opaque(x)
        return opaque(self.linear(x) if self.linear else -x)


@pytest.fixture
def fresh():
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
def test_a_light_op_between_two_host_ops_stays_there():
    x = torch.randn(4096, 256)
    compiled = proveout.compile(Between(heavy=False), x, settings={"verify": True})
    assert torch.equal(compiled(x), -x)
    reasons = {op.aten: op.reason for op in compiled.coverage.on_host}
    assert reasons["aten.neg.default"].startswith("cheaper on the host")
    assert compiled.num_transfers == compiled.coverage.num_transfers == 0


@pytest.mark.usefixtures("fresh")
def test_a_product_between_two_host_ops_goes_to_the_device():
    x = torch.randn(4096, 256)
    compiled = proveout.compile(Between(heavy=True).eval(), x)
    assert {op.aten for op in compiled.coverage.on_host} == {"proveout_tests.opaque.default"}
    assert compiled.coverage.num_transfers == 2


@pytest.mark.usefixtures("fresh")
def test_a_small_op_is_not_worth_keeping():
    """Two small transfers cost less than what a call on the host may."""
    x = torch.randn(4, 8)
    compiled = proveout.compile(Between(heavy=False), x)
    assert {op.aten for op in compiled.coverage.on_host} == {"proveout_tests.opaque.default"}
