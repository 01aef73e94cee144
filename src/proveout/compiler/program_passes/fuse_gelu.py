"""GELU written out becomes the kernel: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), and 0.5 x (1 + erf(x / √2)).

However the products are bracketed, both are polynomials in x and in t = tanh(…) or erf(…), and so is what stands
inside: two polynomials are compared, number by number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, fuse, number
from proveout.program import Arg, Name, Program, Ref, Step

Polynomial = dict[tuple[int, int], float]
"""Coefficients by the powers of x and t."""

SLOPE = math.sqrt(2 / math.pi)
OUTSIDE: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}
INSIDE: dict[str, tuple[Polynomial, str]] = {
    "ttnn.tanh": ({(1, 0): SLOPE, (3, 0): SLOPE * 0.044715}, "ttnn.GeluVariant.Tanh"),
    "ttnn.erf": ({(1, 0): math.sqrt(0.5)}, "ttnn.GeluVariant.Accurate"),
}
ARITHMETIC = ("ttnn.add", "ttnn.multiply", "ttnn.div", "ttnn.pow", "ttnn.square")
MOST_STEPS = 12
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
        inner = list(_ancestors(body, bend, ARITHMETIC, 6))
        for x in dict.fromkeys(name for s in inner for name in s.uses):
            inside = _Expansion(body, {x: (1, 0)})
            outside = _Expansion(body, {x: (1, 0), bend.outputs[0]: (0, 1)})
            if not _same(inside.of(argument), wanted) or not _same(outside.of(Ref(step.outputs[0])), OUTSIDE):
                continue
            removed = {s.outputs[0]: s for s in (*inside.steps, bend, *outside.steps) if s is not step}
            attrs: tuple[tuple[str, Arg], ...] = (("input_tensor", Ref(x)), ("variant", Name(variant)))
            return Fusion((*removed.values(), step), (Step("ttnn.gelu", attrs, step.outputs, step.origin),))
    return None


def _ancestors(body: Body, step: Step, through: tuple[str, ...], depth: int) -> list[Step]:
    """The Steps behind one, itself first, followed through some kernels only."""
    ancestors = [step]
    if depth:
        for name in step.uses:
            maker = body.maker(Ref(name))
            if maker is not None and maker.kernel in through:
                ancestors += _ancestors(body, maker, through, depth - 1)
            elif maker is not None:
                ancestors.append(maker)
    return ancestors


class _Expansion:
    """Values as polynomials in some symbols; `steps` are those that compute them."""

    def __init__(self, body: Body, symbols: Mapping[str, tuple[int, int]]) -> None:
        self.body = body
        self.steps: list[Step] = []
        self._known: dict[str, Polynomial | None] = {name: {powers: 1.0} for name, powers in symbols.items()}

    def of(self, arg: Arg) -> Polynomial | None:
        """None for what is no polynomial, or one that no GELU is: of many Steps, or of a high degree."""
        if not isinstance(arg, Ref):
            return {(0, 0): float(arg)} if isinstance(arg, (int, float)) else None
        if arg.name not in self._known:
            step = self.body.maker(arg, *ARITHMETIC)
            plain = step is not None and step.attr("dtype") is None and len(self.steps) < MOST_STEPS
            self._known[arg.name] = self._result(step) if step is not None and plain else None
        return self._known[arg.name]

    def _result(self, step: Step) -> Polynomial | None:
        self.steps.append(step)
        if step.kernel in ("ttnn.add", "ttnn.multiply"):
            a, b = (self.of(step.attr(f"input_tensor_{side}")) for side in "ab")
            if a is None or b is None:
                return None
            return _sum(a, b) if step.kernel == "ttnn.add" else _product(a, b)
        base = self.of(Ref(step.uses[0]))
        power = 2.0 if step.kernel == "ttnn.square" else number(step)
        if base is None or not power:
            return None
        if step.kernel == "ttnn.div":
            return _product(base, {(0, 0): 1 / power})
        square = _product(base, base)
        return {2.0: square, 3.0: square and _product(base, square)}.get(power)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    return {k: a.get(k, 0.0) + b.get(k, 0.0) for k in {*a, *b}}


def _product(a: Polynomial, b: Polynomial) -> Polynomial | None:
    out: Polynomial = {}
    for (i, j), p in a.items():
        for (k, m), q in b.items():
            out[i + k, j + m] = out.get((i + k, j + m), 0.0) + p * q
    return out if all(i <= 3 for i, _ in out) else None


def _same(polynomial: Polynomial | None, wanted: Polynomial) -> bool:
    return (
        polynomial is not None
        and polynomial.keys() == wanted.keys()
        and all(math.isclose(polynomial[k], wanted[k], rel_tol=TOLERANCE) for k in wanted)
    )


FUSIONS = (Listed("formulas", 1, fuse_gelu),)
