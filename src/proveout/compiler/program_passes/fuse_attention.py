"""Attention written out, softmax(q kᵀ · scale + mask) v, becomes ttnn's kernel for the whole of it.

A query whose keys are all at -inf is NaN written out and 0 in the kernel, as in PyTorch's own fused attention; a mask
that is a constant is looked at, and left alone where it has such a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch

from proveout.compiler.program_passes.fuse_transpose import swaps_last_two
from proveout.compiler.program_passes.match import Body, Fusion, Listed, Policy, either_way, fuse, is_plain, number
from proveout.compiler.program_passes.views import MOVES
from proveout.kernels.table import call_meaning, constant_tensor, infer, kernels, kind_of
from proveout.ops.attention import SDPA, grown_mask
from proveout.program import FROM_TORCH, Arg, Program, Ref, Step

Kind = Literal["causal", "hides", "any"]
VIEWS = ("view", "broadcast", "layout")
MASKED = -3.3e38
"""Models mask with the lowest finite number of their dtype, or -inf; either leaves a weight of exactly 0."""


def fuse_attention(program: Program, policy: Policy) -> Program:
    program = fuse(program, partial(_find, masks={}), policy)
    return fuse(program, _find_repeated, policy)


@dataclass(frozen=True)
class Scores:
    """q kᵀ · scale + mask, and the Steps that compute it."""

    query: Arg
    key_t: Arg
    scale: float
    mask: Arg
    product: Step
    steps: tuple[Step, ...]
    above: tuple[Step, ...] = ()
    """The moves between where the query was scaled and the product: `query` is what they start from."""


def _find(body: Body, step: Step, masks: dict[str, Kind]) -> Fusion | None:
    """`masks` remembers what is known of each: all layers share one."""
    if step.kernel != "ttnn.matmul" or not is_plain(step, "input_tensor_a", "input_tensor_b"):
        return None
    weights = body.maker(step.attr("input_tensor_a"), "ttnn.softmax")
    scores = _scores(body, weights.attr("input_tensor")) if weights is not None else None
    if weights is None or scores is None:
        return None
    value = step.attr("input_tensor_b")
    ranks = {len(body.spec(operand).shape) for operand in (scores.product.attr("input_tensor_a"), scores.key_t, value)}
    if ranks not in ({3}, {4}) or weights.attr("dim") not in (max(ranks) - 1, -1):
        return None
    new = _Steps(body, step)
    query: Arg = _again(scores.above, scores.query, new)
    key, turns = _untransposed(body, scores, new)
    if ranks == {3}:  # heads as part of the batch: to the kernel, one batch of as many heads
        query, key, value = (_in_one_batch(body, operand, new) for operand in (query, key, value))
    attrs: dict[str, Arg] = {"input_tensor_q": query, "input_tensor_k": key, "input_tensor_v": value}
    kind: Kind | None = None
    if isinstance(scores.mask, Ref):
        if scores.mask.name not in masks:
            masks[scores.mask.name] = _kind(constant_of(body, scores.mask))
        kind = masks[scores.mask.name]
        queries, keys = body.specs[scores.product.outputs[0]].shape[-2:]
        if kind == "hides":
            return None
        if kind == "any" or queries != keys:
            attrs["attn_mask"] = _grown(body, scores.mask, queries, keys, new)
    attrs |= {"is_causal": kind == "causal" and "attn_mask" not in attrs, "scale": scores.scale}
    removed = (*turns, *scores.steps, weights, step)
    if ranks == {3}:
        out = new.add(SDPA, "heads", **attrs)
        shape = body.specs[step.outputs[0]].shape
        whole = Step("ttnn.reshape", (("input_tensor", out), ("shape", shape)), step.outputs, step.origin)
    else:
        whole = Step(SDPA, tuple(attrs.items()), step.outputs, step.origin)
    return Fusion(removed, (*new.steps, whole))


def _find_repeated(body: Body, step: Step) -> Fusion | None:
    """Attention on heads that were repeated for their groups: the kernel shares them by itself."""
    if step.kernel != SDPA:
        return None
    shared = [_ungrouped(body, step.attr(f"input_tensor_{n}")) for n in "kv"]
    if None in shared or body.spec(shared[0]).shape[1] != body.spec(shared[1]).shape[1]:
        return None
    operands = dict(zip(("input_tensor_k", "input_tensor_v"), shared))
    attrs = tuple((k, operands.get(k, v)) for k, v in step.attrs)
    return Fusion((step,), (replace(step, attrs=attrs),), rounds_alike=True)


class _Steps:
    """Steps that bring operands to the kernel's form."""

    def __init__(self, body: Body, last: Step) -> None:
        self.body, self.last = body, last
        self.steps: list[Step] = []

    def add(self, kernel: str, hint: str, **attrs: Arg) -> Ref:
        name = self.body.fresh(f"{self.last.outputs[0]}.{hint}")
        self.steps.append(Step(kernel, tuple(attrs.items()), (name,), self.last.origin))
        return Ref(name)


def _scores(body: Body, arg: Arg) -> Scores | None:
    """Backwards: a mask added, numbers multiplied or divided by, the product, and a number on its left operand."""
    steps: list[Step] = []
    mask: Arg = None
    total = body.maker(arg, "ttnn.add")
    if total is not None:
        operands = next(
            ((a, b) for a, b in either_way(total) if isinstance(b, Ref) and _leads_to_product(body, a)), None
        )
        if operands is None or not is_plain(total, "input_tensor_a", "input_tensor_b"):
            return None
        arg, mask = operands
        steps.append(total)
    scale = 1.0
    while (scaled := body.maker(arg, "ttnn.multiply", "ttnn.div")) is not None and number(scaled):
        scale, arg = _factor(scaled, scale), scaled.attr("input_tensor_a")
        steps.append(scaled)
    product = body.maker(arg, "ttnn.matmul")
    if product is None or not is_plain(product, "input_tensor_a", "input_tensor_b"):
        return None
    steps.append(product)
    query, key_t = product.attr("input_tensor_a"), product.attr("input_tensor_b")
    above, scaled = _scaled_above(body, query, product)
    if scaled is None:
        return Scores(query, key_t, scale, mask, product, tuple(reversed(steps)))
    scale, query = _factor(scaled, scale), scaled.attr("input_tensor_a")
    return Scores(query, key_t, scale, mask, product, (scaled, *above, *reversed(steps)), above)


def _scaled_above(body: Body, query: Arg, product: Step) -> tuple[tuple[Step, ...], Step | None]:
    """Where only the product reads them: the moves that make the query, and the Step before them that scales it."""
    above: list[Step] = []
    reader, at = product, query
    while (step := body.maker(at, *MOVES, "ttnn.multiply", "ttnn.div")) is not None:
        if body.readers(step.outputs[0]) != [reader]:
            break
        if step.kernel not in MOVES:
            return tuple(above), step if number(step) else None
        above.insert(0, step)
        reader, at = step, Ref(step.uses[0])
    return (), None


def _again(moves: tuple[Step, ...], source: Arg, new: _Steps) -> Arg:
    """The same moves of another value."""
    for move in moves:
        attrs = {k: source if isinstance(v, Ref) else v for k, v in move.attrs}
        source = new.add(move.kernel, f"query{len(new.steps) or ''}", **attrs)
    return source


def _in_one_batch(body: Body, operand: Arg, new: _Steps) -> Arg:
    steps = {s.outputs[0]: s for s in new.steps}
    assert isinstance(operand, Ref)
    specs = dict(body.specs)
    for step in steps.values():
        specs[step.outputs[0]] = infer(step, specs)[0]
    shape = (1, *specs[operand.name].shape)
    return new.add("ttnn.reshape", f"{operand.name.rpartition('.')[2]}.batch", input_tensor=operand, shape=shape)


def _factor(scaled: Step, scale: float) -> float:
    value = number(scaled)
    assert value is not None
    return scale * value if scaled.kernel == "ttnn.multiply" else scale / value


def _leads_to_product(body: Body, arg: Arg) -> bool:
    step = body.maker(arg, "ttnn.matmul", "ttnn.multiply", "ttnn.div")
    while step is not None and step.kernel != "ttnn.matmul":
        step = body.maker(step.attr("input_tensor_a"), "ttnn.matmul", "ttnn.multiply", "ttnn.div")
    return step is not None


def _untransposed(body: Body, scores: Scores, new: _Steps) -> tuple[Arg, tuple[Step, ...]]:
    """The key itself: what was transposed, the permutation without its last exchange, or a transpose of our own; and
    the permute that goes if nobody else reads it."""
    turn = body.maker(scores.key_t, "ttnn.permute")
    if turn is None:
        rank = len(body.spec(scores.key_t).shape)
        return new.add("ttnn.permute", "key", input_tensor=scores.key_t, dims=_last_exchanged(tuple(range(rank)))), ()
    turns = (turn,) if body.readers(turn.outputs[0]) == [scores.product] else ()
    if swaps_last_two(turn.attr("dims")):
        return Ref(turn.uses[0]), turns
    dims = turn.attr("dims")
    assert isinstance(dims, tuple)
    return new.add("ttnn.permute", "key", input_tensor=Ref(turn.uses[0]), dims=_last_exchanged(dims)), turns


def _last_exchanged(dims: tuple[Arg, ...]) -> tuple[Arg, ...]:
    return (*dims[:-2], dims[-1], dims[-2])


def _ungrouped(body: Body, arg: Arg) -> Arg:
    """Keys or values before each head was repeated for its group of queries, which the kernel does by itself."""
    flat = body.maker(arg, "ttnn.reshape")
    wide = body.maker(flat.attr("input_tensor"), "ttnn.expand") if flat else None
    apart = body.maker(wide.attr("input_tensor"), "ttnn.reshape") if wide else None
    if flat is None or wide is None or apart is None:
        return None
    source = apart.attr("input_tensor")
    batch, heads, length, depth = body.spec(arg).shape
    before, shape = body.spec(source).shape, body.specs[wide.outputs[0]].shape
    if len(before) != 4 or len(shape) != 5 or body.specs[apart.outputs[0]].shape != (*before[:2], 1, *before[2:]):
        return None
    whole = before[0] == batch and before[2:] == (length, depth) and shape[1] * shape[2] == heads
    return source if whole and shape == (*before[:2], shape[2], *before[2:]) else None


def _grown(body: Body, mask: Arg, queries: int, keys: int, new: _Steps) -> Arg:
    shape = grown_mask(body.spec(mask).shape, queries, keys)
    return (
        mask
        if body.spec(mask).shape == shape
        else new.add("ttnn.expand", "mask", input_tensor=mask, output_shape=shape)
    )


def constant_of(body: Body, arg: Arg) -> torch.Tensor | None:
    """The numbers of a value that is a constant of the Program, moved to the device and viewed at most."""
    if not isinstance(arg, Ref):
        return None
    if arg.name in body.constants:
        return constant_tensor(body.constants[arg.name], body.specs[arg.name])
    step = body.prepared.get(arg.name) or body.maker(arg)
    if step is None or len(step.uses) != 1 or not (step.kernel == FROM_TORCH or kind_of(step) in VIEWS):
        return None
    data = constant_of(body, Ref(step.uses[0]))
    if data is None:
        return None
    attrs = {k: data if isinstance(v, Ref) else v for k, v in step.attrs}
    out: torch.Tensor = call_meaning(kernels()[step.kernel], attrs)
    return out


def _kind(mask: torch.Tensor | None) -> Kind:
    """Whether a mask lets each query see itself and what came before and nothing else, or hides all from some query."""
    if mask is None:
        return "any"
    if bool((mask == -torch.inf).all(-1).any()):
        return "hides"
    length = mask.shape[-1]
    if mask.shape[-2:] != (length, length):
        return "any"
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    return "causal" if bool((mask[..., later] <= MASKED).all() and (mask[..., ~later] == 0).all()) else "any"


FUSIONS = (Listed("formulas", 4, fuse_attention),)
