"""PyTorch's own operator samples, the first few of each operator and dtype; `opinfo.py` runs them all.

Nothing crashes and nothing is wrong; what PyTorch itself does oddly is an xfail with its reason.
"""

from __future__ import annotations

import opinfo
import pytest
import torch
from known_oddities import KNOWN
from opinfo import DTYPES, names, run_op

from proveout.devices.registry import find
from proveout.devices.sim import Sim

pytestmark = pytest.mark.slow
SAMPLES = 2
GROUPS = 60


@pytest.mark.parametrize("group", range(GROUPS))
def test_first_samples_compute_what_eager_computes(group):
    torch.set_num_threads(1)
    bad = []
    for name in names()[group::GROUPS]:
        for dtype in DTYPES:
            for outcome in run_op(name, dtype, SAMPLES):
                if outcome.state in ("wrong", "crash") and (name, dtype) not in KNOWN:
                    bad.append(outcome)
    assert not bad


@pytest.mark.parametrize("group", range(GROUPS))
def test_two_chips_compute_what_eager_computes(group, monkeypatch):
    """Most samples have odd batches, so the last row is repeated; those that mix their batch stay on one chip."""
    torch.set_num_threads(1)
    monkeypatch.setattr(opinfo, "SIM", Sim("n300"))
    monkeypatch.setattr(opinfo, "INFO", find("sim:n300"))
    outcomes = [o for name in names()[group::GROUPS] for o in run_op(name, "float32", SAMPLES)]
    assert not [o for o in outcomes if o.state in ("wrong", "crash") and (o.op, o.dtype) not in KNOWN]


ODD = [pytest.param(*key, marks=pytest.mark.xfail(reason=why)) for key, why in KNOWN.items()]


@pytest.mark.parametrize(("name", "dtype"), ODD)
def test_known_oddities(name, dtype):
    torch.set_num_threads(1)
    bad = [o for o in run_op(name, dtype) if o.state in ("wrong", "crash")]
    assert not bad
