"""Compiled functions against eager ones: the same values, dtypes, shapes and writes, or one and the same error."""

from __future__ import annotations

import warnings

import pytest
import torch
from small_programs import arguments, function, source
from torch.utils._pytree import tree_flatten

LONG = pytest.param(range(10_000), marks=pytest.mark.fuzz)
TOLERANCE = {"cpu": (1e-4, 1e-4), "sim": (0.05, 0.1)}


def outcome(call, given):
    """What a call gives and leaves in its arguments, or that it raises."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            result = call(*given)
    except Exception as error:
        return error, None
    leaves, structure = tree_flatten(result)
    values = (*leaves, *tree_flatten(given)[0])
    return [v.clone() if isinstance(v, torch.Tensor) else v for v in values], structure


def differences(seed, device, options):
    """Why the compiled function is not the eager one; empty where it is."""
    return unlike_eager(seed, TOLERANCE[device], backend="proveout", options={"device": device, **options})


def pytorchs_own(seed, device):
    """Whether PyTorch's functional graph alone, with nothing of ours, is not the eager function either: it knows no
    memory, makes writes that eager refuses, and refuses some that eager makes."""
    return unlike_eager(seed, TOLERANCE[device], backend="aot_eager") != ""


def unlike_eager(seed, tolerance, **how):
    torch._dynamo.reset()
    eager = function(seed)
    compiled = torch.compile(function(seed), **how)
    for size in (None, 5, 3) if seed % 4 == 0 else (None,):
        wanted, structure = outcome(eager, arguments(seed, size))
        found, other = outcome(compiled, arguments(seed, size))
        if isinstance(wanted, Exception):  # another size may not fit the function
            if not isinstance(found, Exception):
                return f"eager raises {wanted!r}, compiled does not"
            continue
        if isinstance(found, Exception):
            return f"compiled raises {type(found).__name__}: {str(found)[:300]}"
        if structure != other:
            return f"the outputs are {other}, not {structure}"
        for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            why = unlike(ours, theirs, *tolerance)
            if why:
                return f"value {index} at size {size}: {why}"
    return ""


def unlike(ours, theirs, rtol, atol):
    if not isinstance(theirs, torch.Tensor):
        return "" if ours == theirs else f"{ours!r}, not {theirs!r}"
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{tuple(ours.shape)}, not {theirs.dtype}{tuple(theirs.shape)}"
    exact = not (theirs.is_floating_point() or theirs.is_complex())
    close = torch.equal(ours, theirs) if exact else torch.allclose(ours, theirs, rtol, atol, equal_nan=True)
    return "" if close else f"other numbers: {ours.flatten()[:4].tolist()}, not {theirs.flatten()[:4].tolist()}"


@pytest.mark.parametrize("seeds", [range(200), LONG], ids=["some", "all"])
def test_a_small_function_is_what_it_is_in_eager(seeds):
    unlike_it = {seed: why for seed in seeds if (why := differences(seed, "cpu", {}))}
    wrong = {seed: why for seed, why in unlike_it.items() if not pytorchs_own(seed, "cpu")}
    told = "\n".join(f"seed {seed}: {why}\n{source(seed)}" for seed, why in list(wrong.items())[:10])
    assert not wrong, f"{len(wrong)} of {len(seeds)}: {sorted(wrong)}\n{told}"
    assert len(unlike_it) < 0.05 * len(seeds)
