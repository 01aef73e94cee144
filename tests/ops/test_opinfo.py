"""PyTorch's own operator samples: nothing crashes and nothing is wrong; what PyTorch does oddly is an xfail.

In `make test`: the first samples of every operator and dtype without Dynamo, and one sample of a seeded choice of
operators through `torch.compile`. The whole table is for when the table changed: tens of thousands of samples, tens of
minutes on two cores, sharded by xdist. What one run finished, the next one does not run again while the sources are the
same:

    python -m pytest -n 2 -m whole_table tests/ops
"""

from __future__ import annotations

import itertools
import random

import opinfo
import pytest
import torch
from known_oddities import KNOWN, KNOWN_TO_DYNAMO
from opinfo import DTYPES, dtypes_of, names, run_all, run_compiled, run_op
from sources import digest

from proveout.devices.registry import find
from proveout.devices.sim import Sim

pytestmark = pytest.mark.slow
SAMPLES = 2
GROUPS = 60
CHOICE = 80
BAD = ("wrong", "crash")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def one_in(every):
    """The groups, of which `make test` runs so many."""
    return [pytest.param(g, marks=() if g % every == 0 else pytest.mark.whole) for g in range(GROUPS)]


@pytest.mark.parametrize("group", one_in(3))
def test_first_samples_compute_what_eager_computes(group):
    bad = []
    for name, dtype in itertools.product(names()[group::GROUPS], DTYPES):
        if (name, dtype) not in KNOWN:
            bad += [o for o in run_op(name, dtype, SAMPLES) if o.state in BAD]
    assert not bad


@pytest.mark.parametrize("group", one_in(6))
def test_two_chips_compute_what_eager_computes(group, monkeypatch):
    """Most samples have odd batches, so the last row is repeated; those that mix their batch stay on one chip."""
    monkeypatch.setattr(opinfo, "SIM", Sim("n300"))
    monkeypatch.setattr(opinfo, "INFO", find("sim:n300"))
    outcomes = [o for name in names()[group::GROUPS] for o in run_op(name, "float32", SAMPLES)]
    assert not [o for o in outcomes if o.state in BAD and (o.op, o.dtype) not in KNOWN]


def chosen():
    """The same ones every time, each with one of the dtypes that it takes."""
    taken = {name: dtypes_of(name) for name in sorted(set(names()))}
    for number, name in enumerate(random.Random(0).sample([n for n, dtypes in taken.items() if dtypes], CHOICE)):
        key = name, taken[name][number % len(taken[name])]
        marks = [pytest.mark.xfail(reason=KNOWN_TO_DYNAMO[key])] if key in KNOWN_TO_DYNAMO else []
        yield pytest.param(*key, marks=marks, id="-".join(key))


@pytest.mark.parametrize(("name", "dtype"), chosen())
def test_torch_compile_computes_what_eager_computes(name, dtype):
    """`eager` is where Dynamo finds nothing to capture."""
    outcome = run_compiled(name, dtype)
    assert outcome.state in ("right", "eager"), outcome


@pytest.mark.whole_table
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_samples_compute_what_eager_computes(group, request):
    results = request.config.cache.mkdir("opinfo") / f"{digest()}-{group}.jsonl"
    pairs = [p for p in itertools.product(names()[group::GROUPS], DTYPES) if p not in KNOWN]
    assert [o for o in run_all(pairs, results) if o.state in BAD] == []


ODD = [pytest.param(*key, marks=pytest.mark.xfail(reason=why)) for key, why in KNOWN.items()]


@pytest.mark.parametrize(("name", "dtype"), ODD)
def test_known_oddities(name, dtype):
    assert next((o for o in run_op(name, dtype) if o.state in BAD), None) is None
