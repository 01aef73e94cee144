"""PyTorch's own operator samples, the first few of each operator and dtype; `opinfo.py` runs them all.

Nothing crashes and nothing is wrong; what PyTorch itself does oddly is an xfail with its reason.
"""

from __future__ import annotations

import pytest
import torch
from known_oddities import KNOWN
from opinfo import DTYPES, names, run_op

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


ODD = [pytest.param(*key, marks=pytest.mark.xfail(reason=why)) for key, why in KNOWN.items()]


@pytest.mark.parametrize(("name", "dtype"), ODD)
def test_known_oddities(name, dtype):
    torch.set_num_threads(1)
    bad = [o for o in run_op(name, dtype) if o.state in ("wrong", "crash")]
    assert not bad
