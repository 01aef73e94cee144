"""GELU written out becomes the kernel: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), and 0.5 x (1 + erf(x / √2)).

However the products are bracketed, both are polynomials in x and in t = tanh(…) or erf(…), and so is what stands
inside: two polynomials are compared, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from proveout.compiler.program_passes.match import Body, Fusion, Policy, fuse, number
from proveout.program import Arg, Name, Program, Ref, Step

Polynomial = dict[tuple[int, int], float]
"""Coefficients by the powers of x and t."""

SLOPE = math.sqrt(2 / math.pi)
OUTSIDE: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
INSIDE: dict[str, tuple[Polynomial, str]] = {
    "ttnn.tanh": ({(1, 0): SLOPE, (3, 0): SLOPE * 0.044715}, "ttnn.GeluVariant.Tanh"),
    "ttnn.erf": ({(1, 0): math.sqrt(0.5)}, "ttnn.GeluVariant.Accurate"),
}
TOLERANCE = 1e-6
"""Relative: models write √(2/π) with seven to sixteen digits. 0.0447 for 0.044715 is another function."""


def fuse_gelu(program: Program, policy: Policy) -> Program:
    return fuse(program, _find, policy)


def _find(body: Body, step: Step) -> Fusion | None:
    if step.kernel != "ttnn.multiply":
        return None
    for bend in _ancestors(body, step, ("ttnn.add", "ttnn.multiply"), depth=3):
        if bend.kernel not in INSIDE:
            continue
        wanted, variant = INSIDE[bend.kernel]
        argument = bend.attr("input_tensor")
        inner = list(_ancestors(body, bend, ("ttnn.add", "ttnn.multiply", "ttnn.div", "ttnn.pow", "ttnn.square"), 6))
        for x in dict.fromkeys(name for s in inner for name in s.uses):
            seen: dict[str, Step] = {}
            if not _same(_expand(body, argument, {x: (1, 0)}, seen), wanted):
                continue
            if not _same(_expand(body, Ref(step.outputs[0]), {x: (1, 0), bend.outputs[0]: (0, 1)}, seen), OUTSIDE):
                continue
            seen.pop(step.outputs[0])
            removed = (*seen.values(), bend, step)
            attrs: tuple[tuple[str, Arg], ...] = (("input_tensor", Ref(x)), ("variant", Name(variant)))
            return Fusion(removed, (Step("ttnn.gelu", attrs, step.outputs, step.origin),))
    return None


def _ancestors(body: Body, step: Step, through: tuple[str, ...], depth: int) -> list[Step]:
    """The Steps behind one, itself first, followed through some kernels only."""
    found = [step]
    if depth:
        for name in step.uses:
            maker = body.maker(Ref(name))
            if maker is not None and maker.kernel in through:
                found += _ancestors(body, maker, through, depth - 1)
            elif maker is not None:
                found.append(maker)
    return found


def _expand(body: Body, arg: Arg, symbols: Mapping[str, tuple[int, int]], seen: dict[str, Step]) -> Polynomial | None:
    """A value as a polynomial in the symbols, or None; `seen` gathers the Steps that compute it."""
    if not isinstance(arg, Ref):
        return {(0, 0): float(arg)} if isinstance(arg, (int, float)) else None
    if arg.name in symbols:
        return {symbols[arg.name]: 1.0}
    step = body.maker(arg, "ttnn.add", "ttnn.multiply", "ttnn.div", "ttnn.pow", "ttnn.square")
    if step is None or step.attr("dtype") is not None:
        return None
    seen[arg.name] = step
    if step.kernel in ("ttnn.add", "ttnn.multiply"):
        a, b = (_expand(body, step.attr(f"input_tensor_{i}"), symbols, seen) for i in "ab")
        if a is None or b is None:
            return None
        return _sum(a, b) if step.kernel == "ttnn.add" else _product(a, b)
    base = _expand(body, Ref(step.uses[0]), symbols, seen)
    power = 2.0 if step.kernel == "ttnn.square" else number(step)
    if base is None or not power:
        return None
    if step.kernel == "ttnn.div":
        return _product(base, {(0, 0): 1 / power})
    if power not in (2.0, 3.0) or step.kernel not in ("ttnn.pow", "ttnn.square"):
        return None
    return _product(base, _product(base, base)) if power == 3.0 else _product(base, base)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    return {k: a.get(k, 0.0) + b.get(k, 0.0) for k in {*a, *b}}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for (i, j), p in a.items():
        for (k, m), q in b.items():
            out[i + k, j + m] = out.get((i + k, j + m), 0.0) + p * q
    return out


def _same(found: Polynomial | None, wanted: Polynomial) -> bool:
    return (
        found is not None
        and found.keys() == wanted.keys()
        and all(math.isclose(found[k], wanted[k], rel_tol=TOLERANCE) for k in wanted)
    )
