"""Under `bfloat16` no model of the corpora is further from its float32 outputs than eager's own bfloat16.

Further means a distance that is larger by half: roundings add up otherwise in every order of sums, and over whole
models more so than in an op (tests/ops/test_further_than_eager.py). The others by name (-m whole_corpora).
"""

from __future__ import annotations

import copy
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map_only

import proveout
from proveout.capture import corpora_folder, read_labels, resolve, watch
from proveout.check.compare import relative_l2
from proveout.check.outputs import leaves

WORSE, NOISE = 1.5, 1e-3
"""How much further counts; a distance that small, of the outputs' own size, does not."""
FEWEST = 64
"""Numbers that an output needs: the distance of a few says little."""
ONE_IN, CHOSEN = 96, 5
"""Seven small models for `make test`."""
SCRIPTS = {
    str(path.relative_to(corpora_folder())): path
    for path, _ in resolve([], [], all=True)
    if ("expect", ("fail",)) not in read_labels(path)
}


def marked(name: str) -> Any:
    """A seeded choice; the others are named by a mark."""
    return pytest.mark.slow if zlib.crc32(name.encode()) % ONE_IN == CHOSEN else pytest.mark.whole_corpora


def rounded(value: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda t: t.bfloat16() if t.is_floating_point() else t, value)


def times_as_far(model: torch.nn.Module, args: Any, kwargs: Any) -> float | None:
    """Our distance over eager's, of the output where it is largest; None where there is nothing to compare."""
    model.eval()
    torch._dynamo.reset()
    with torch.no_grad():
        exact = dict(leaves(model(*copy.deepcopy(args), **copy.deepcopy(kwargs))))
        try:
            eager = copy.deepcopy(model).bfloat16()(*rounded(args), **rounded(kwargs))
        except Exception:  # the model's own code, in a precision that its author may never have tried
            return None
        compiled = proveout.compile(model, call=(args, kwargs), settings={"precision": "bfloat16"})
        ours, eagers = dict(leaves(compiled(*args, **kwargs))), dict(leaves(eager))
    found = []
    for name, wanted in exact.items():
        if isinstance(wanted, torch.Tensor) and wanted.is_floating_point() and wanted.numel() >= FEWEST:
            distances = [relative_l2(outputs[name].float(), wanted) for outputs in (ours, eagers)]
            if None not in distances:
                found.append(distances[0] / max(distances[1], NOISE))
    return max(found, default=None)


@pytest.mark.parametrize("script", [pytest.param(path, id=name, marks=marked(name)) for name, path in SCRIPTS.items()])
def test_a_script_s_models_are_no_further_off(script: Path) -> None:
    models = watch(script, "--small")[0]
    assert models
    for found in models:
        times = times_as_far(found.module, found.args, found.kwargs)
        assert times is None or times <= WORSE, found.workload.name
