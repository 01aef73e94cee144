"""What a chain of moves does: each number of the result, by its place among the source's numbers.

Reshapes, permutes and slices are told as strides, as PyTorch tells views, but a dimension may have several: so every
reshape of every permute can be told, chains can be compared, and a chain can be said again in the fewest moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from proveout.compiler.program_passes.match import Body
from proveout.kernels.table import LAYOUT_NAMES
from proveout.program import Arg, Ref, Step
from proveout.types import TensorSpec

Factor = tuple[int, int]
"""So many numbers, and how far each is from the one before."""
MOVES = ("ttnn.reshape", "ttnn.permute", "ttnn.slice", "ttnn.to_layout")


@dataclass(frozen=True)
class View:
    """The dimensions of a rearranged tensor, each as factors from the outermost in, and where its first number lies."""

    dims: tuple[tuple[Factor, ...], ...]
    offset: int = 0
    left_out: int = 0
    """How many of the source's numbers it does not have."""

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> View:
        """A tensor as it is."""
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        return cls(tuple(_joined([(size, stride)]) for size, stride in zip(shape, strides)))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(math.prod(size for size, _ in factors) for factors in self.dims)

    @property
    def is_whole(self) -> bool:
        """Whether it has every number of its source exactly once."""
        reach = 1
        for size, stride in sorted((f for d in self.dims for f in d), key=lambda f: f[1]):
            if stride != reach:
                return False
            reach *= size
        return not self.offset and not self.left_out

    @property
    def joined(self) -> tuple[Factor, ...]:
        """All its numbers, whatever its shape, in the fewest factors."""
        return _joined([f for d in self.dims for f in d])

    @property
    def in_order(self) -> bool:
        """Whether it is its source reshaped."""
        flat = self.joined
        return not self.offset and not self.left_out and (not flat or (len(flat) == 1 and flat[0][1] == 1))

    def reshape(self, shape: tuple[int, ...]) -> View | None:
        """None where a dimension would begin in the midst of a factor."""
        left = [f for d in self.dims for f in d]
        dims = []
        for size in shape:
            factors: list[Factor] = []
            while size > 1:
                if not left:
                    return None
                outer, stride = left.pop(0)
                taken = math.gcd(size, outer)
                if taken != outer:  # the rest belongs to the next dimension, or does not divide
                    if taken != size:
                        return None
                    left.insert(0, (outer // taken, stride))
                    stride *= outer // taken
                factors.append((taken, stride))
                size //= taken
            dims.append(_joined(factors))
        return None if left else replace(self, dims=tuple(dims))

    def permute(self, dims: tuple[int, ...]) -> View:
        return replace(self, dims=tuple(self.dims[d] for d in dims))

    def slice(self, start: tuple[int, ...], end: tuple[int, ...]) -> View | None:
        """None where a part of a dimension is cut that has several factors."""
        dims, offset = [], self.offset
        for factors, size, first, last in zip(self.dims, self.shape, start, end, strict=True):
            if (first, last) == (0, size):
                dims.append(factors)
            elif len(factors) == 1:
                offset += first * factors[0][1]
                dims.append(_joined([(last - first, factors[0][1])]))
            else:
                return None
        taken = replace(self, dims=tuple(dims), offset=offset)
        return replace(taken, left_out=self.left_out + math.prod(self.shape) - math.prod(taken.shape))

    def then(self, later: View) -> View | None:
        """This view, seen through a later one of its whole result."""
        view: View | None = self
        for kernel, how in later.moves(self.shape):
            if view is not None:
                view = view.reshape(how) if kernel == "ttnn.reshape" else view.permute(how)
        return view

    def moves(self, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The moves that make it from a source of this shape, at most three: reshape, permute, reshape."""
        assert self.is_whole, f"{self} leaves numbers out"
        factors = [f for d in self.dims for f in d]
        order = sorted(range(len(factors)), key=lambda i: -factors[i][1])
        if order != list(range(len(factors))):
            apart = tuple(factors[i][0] for i in order)
            dims = tuple(order.index(i) for i in range(len(factors)))
            ones = [i for i, n in enumerate(shape) if n != 1]
            if tuple(shape[i] for i in ones) == apart and len(apart) > 1:  # apart already, but for ones
                rest = [i for i, n in enumerate(shape) if n == 1]
                dims, apart = (*rest, *(ones[d] for d in dims)), shape
            if apart != shape:
                yield "ttnn.reshape", apart
            yield "ttnn.permute", dims
            shape = tuple(apart[d] for d in dims)
        if shape != self.shape:
            yield "ttnn.reshape", self.shape


def _joined(factors: list[Factor]) -> tuple[Factor, ...]:
    """Without factors of one number, and neighbours as one where the outer goes on where the inner ends."""
    out: list[Factor] = []
    for size, stride in factors:
        if size == 1:
            continue
        if out and out[-1][1] == size * stride:
            out[-1] = out[-1][0] * size, stride
        else:
            out.append((size, stride))
    return tuple(out)


def moved(view: View, step: Step, specs: Mapping[str, TensorSpec]) -> View | None:
    """What a move makes of a view."""
    if step.kernel == "ttnn.reshape":
        return view.reshape(specs[step.outputs[0]].shape)
    if step.kernel == "ttnn.permute":
        return view.permute(tuple(d % len(view.dims) for d in _numbers(step, "dims")))
    if step.kernel == "ttnn.slice":
        whole = all(n == 1 for n in _numbers(step, "slice_step"))
        return view.slice(_numbers(step, "slice_start"), _numbers(step, "slice_end")) if whole else None
    return view if set(dict(step.attrs)) <= {"tensor", "layout"} else None


def _numbers(step: Step, name: str) -> tuple[int, ...]:
    values = step.attr(name)
    return tuple(n for n in values if isinstance(n, int)) if isinstance(values, tuple) else ()


@dataclass(frozen=True)
class Chain:
    """A value as moves made it: what they started from, what they do, and they themselves, first to last."""

    source: str
    view: View
    steps: tuple[Step, ...] = ()


def chain_to(body: Body, name: str) -> Chain:
    """The longest chain of moves that ends in a value and can be told."""
    steps: list[Step] = []
    best = Chain(name, View.of(body.specs[name].shape))
    while (step := body.maker(Ref(name), *MOVES)) is not None:
        name = step.uses[0]
        steps.insert(0, step)
        view: View | None = View.of(body.specs[name].shape)
        for each in steps:
            view = moved(view, each, body.specs) if view is not None else None
        if view is None:
            break
        best = Chain(name, view, tuple(steps))
    return best


def leaves(body: Body, name: str, passes: Callable[[Step], bool] | None = None) -> list[Chain] | None:
    """The values that moves make of one and that something else reads; None where one cannot be told. A chain goes on
    through a Step that `passes`: one that does the same to every number."""
    chains: list[Chain] = []
    open_chains: list[tuple[str, View, tuple[Step, ...]]] = [(name, View.of(body.specs[name].shape), ())]
    while open_chains:
        at, view, steps = open_chains.pop(0)
        readers = body.readers(at)
        later = [r for r in readers if r.kernel in MOVES or (passes is not None and passes(r))]
        if len(later) < len(readers) or body.read_elsewhere({at}, tuple(readers)) or not readers:
            chains.append(Chain(name, view, steps))
        for step in later:
            after = moved(view, step, body.specs) if step.kernel in MOVES else view
            if after is None:
                return None
            open_chains.append((step.outputs[0], after, (*steps, step)))
    return chains


class Emit:
    """New Steps, one after the other, at the origin of an old one."""

    def __init__(self, body: Body, like: Step) -> None:
        self.body, self.like = body, like
        self.steps: list[Step] = []

    def call(self, kernel: str, hint: str, **attrs: Arg) -> Ref:
        taken = {n for s in self.steps for n in s.outputs}
        name = self.body.fresh(hint)
        while name in taken:
            name = self.body.fresh(name + "'")
        self.steps.append(Step(kernel, tuple(attrs.items()), (name,), self.like.origin))
        return Ref(name)

    def move(self, source: Ref, shape: tuple[int, ...], view: View, hint: str) -> Ref:
        """A view of a value of this shape."""
        for kernel, how in view.moves(shape):
            attrs: dict[str, Arg] = {"input_tensor": source, "shape" if kernel == "ttnn.reshape" else "dims": how}
            source = self.call(kernel, hint, **attrs)
        return source

    def convert(self, source: Ref, before: TensorSpec, after: TensorSpec) -> None:
        """To the layout that the readers expect, where it is another."""
        if before.layout != after.layout:
            self.call("ttnn.to_layout", f"{source.name}.laid", tensor=source, layout=LAYOUT_NAMES[after.layout])

    def named(self, outputs: tuple[str, ...]) -> tuple[Step, ...]:
        """The Steps, the last of which makes these values."""
        return (*self.steps[:-1], replace(self.steps[-1], outputs=outputs))


def unread_but_here(body: Body, steps: tuple[Step, ...], last: Step) -> tuple[Step, ...]:
    """Those of a chain, from its end up, that nobody reads but the next and at the end this Step."""
    gone: list[Step] = []
    reader = last
    for step in reversed(steps):
        if body.read_elsewhere({step.outputs[0]}, (reader, last)):
            break
        gone.insert(0, step)
        reader = step
    return tuple(gone)
