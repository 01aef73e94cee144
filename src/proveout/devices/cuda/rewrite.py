"""A Program for torch, rewritten for a GPU: products take in their bias, activation, residuals and layer norms,
convolutions their batch norm, residual and ReLU; attention is one call that reads and writes rows where they lie.

What is in no pattern stays as it is. Only bfloat16 and float16 are rewritten, and in float32 what a model does with one
token: for the rest of float32 the library is as exact and as fast as what we could write.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from proveout.devices.cuda.body import HALF, Body, permute, reshape
from proveout.devices.cuda.rewrite_branches import join_branches
from proveout.devices.cuda.rewrite_conv import fuse_convolutions
from proveout.devices.cuda.rewrite_heads import ATTENTION, tidy_heads
from proveout.devices.cuda.rewrite_products import fuse_products
from proveout.kernels.table import constant_tensor
from proveout.ops.attention import SDPA
from proveout.program import Arg, Program, Ref, Step

APPEND = "proveout.append.default"
EFFICIENT = "aten._scaled_dot_product_efficient_attention.default"


def rewrite(program: Program, fold: bool = True, weights: str = "same", join: bool = False) -> Program:
    """`fold`: products take in the layer norms around them. `weights`: the format of products' weights, `same`, `int8`
    or `float8`. `join`: attention and a feed-forward beside each other share their products."""
    body = Body(program)
    fuse_attention(body)
    tidy_heads(body)
    fuse_convolutions(body)
    fuse_products(body, fold, weights)
    if join:
        join_branches(body)
    return body.done()


def fuse_attention(body: Body) -> None:
    for step in body.steps:
        if step.kernel == SDPA and _joins_cache(body, step):
            continue
        if step.kernel == SDPA and body.specs[step.outputs[0]].dtype in HALF:
            causal, mask = bool(step.attr("is_causal", True)), step.attr("attn_mask")
            if mask is not None and is_causal_mask(body, mask):
                causal, mask = True, None
            parts = tuple(step.attr(f"input_tensor_{x}") for x in "qkv")
            fused = attention(parts, mask, causal, _factor(body, step, parts[0]), step.outputs[0])
            body.substitute([step], [fused], step.outputs[0])
        elif step.kernel == EFFICIENT and not any(map(body.readers, step.outputs[1:])):
            _whole_attention(body, step)
        elif step.kernel == "ttnn.matmul":
            steps = _written_out(body, step) or _written_out_over_cache(body, step)
            if steps is not None:
                body.substitute([step], steps, step.outputs[0])


def _factor(body: Body, step: Step, q: Arg) -> float:
    scale = step.attr("scale")
    return float(scale) if isinstance(scale, (int, float)) else 1 / math.sqrt(body.spec(q).shape[-1])


def _whole_attention(body: Body, step: Step) -> None:
    """PyTorch's own attention op, as graphs of models on a GPU have it."""
    q, dropout = body.spec(step.attr("query")), step.attr("dropout_p", 0.0)
    if dropout or not body.results.isdisjoint(step.outputs[1:]) or _joins_cache(body, step) or q.dtype not in HALF:
        return
    parts = tuple(step.attr(x) for x in ("query", "key", "value"))
    factor, causal = _factor(body, step, parts[0]), bool(step.attr("is_causal", False))
    body.substitute(
        [step], [attention(parts, step.attr("attn_bias"), causal, factor, step.outputs[0])], step.outputs[0]
    )


def attention(parts: tuple[Arg, ...], mask: Arg, causal: bool, scale: float, name: str) -> Step:
    names = ("q", "k", "v", "mask", "causal", "scale", "cos", "sin", "turn")
    return Step(ATTENTION, tuple(zip(names, (*parts, mask, causal, scale, None, None, ""))), (name,))


def is_causal_mask(body: Body, mask: Arg) -> bool:
    """Whether a mask is a constant that hides what comes later and nothing else."""
    constant = next((c for c in body.program.constants if Ref(c.name) == mask), None)
    if constant is None or not constant.data:
        return False
    values = constant_tensor(constant, body.specs[constant.name])
    queries, keys = values.shape[-2:]
    if queries != keys or values.numel() != queries * keys:
        return False
    seen = torch.ones(queries, keys, dtype=torch.bool).tril()
    values = values.reshape(queries, keys)
    if values.dtype == torch.bool:
        return bool((values == seen).all())
    return bool((values[seen] == 0).all() and (values[~seen].float() <= -1e9).all())


def _joins_cache(body: Body, step: Step) -> bool:
    """Attention to static caches that new keys and values were put into: one call that puts them there and attends."""
    names = [f"input_tensor_{x}" for x in "qkv"] if step.kernel == SDPA else ["query", "key", "value"]
    q, k, v = (step.attr(name) for name in names)
    mask, causal = step.attr("attn_mask" if step.kernel == SDPA else "attn_bias"), step.attr("is_causal", False)
    keys, values = _put(body, k, step), _put(body, v, step)
    if causal or keys is None or values is None or keys.position != values.position:
        return False
    steps: list[Step] = []
    fresh = [keys.rows, values.rows]
    for index, (rows, cache) in enumerate(zip(fresh, (keys, values))):
        batch, heads, _, depth = body.spec(cache.cache).shape
        shape = (batch, heads, body.spec(cache.position).numel, depth)
        if body.spec(rows).numel != batch * heads * shape[2] * depth:
            return False
        if body.spec(rows).shape != shape:
            name = body.fresh(f"{step.outputs[0]}.{'kv'[index]}", shape, body.spec(rows).dtype)
            steps.append(reshape(rows, shape, name))
            fresh[index] = Ref(name)
    attrs: dict[str, Arg] = {"q": q, "k": fresh[0], "v": fresh[1], "keys": keys.cache, "values": values.cache}
    attrs |= {"position": keys.position, "mask": mask, "scale": _factor(body, step, q)}
    steps.append(Step(APPEND, tuple(attrs.items()), (step.outputs[0],), step.origin))
    body.substitute([step], steps, step.outputs[0])
    return True


@dataclass(frozen=True)
class _Put:
    """Rows that take their places in a cache [batch, heads, length, depth], which is an input of the Program."""

    cache: Ref
    rows: Ref
    position: Ref


def _put(body: Body, arg: Arg, reader: Step) -> _Put | None:
    """Where an operand of attention is a cache with some rows replaced, and nobody else reads it so."""
    scatter: Step | None = None
    while isinstance(arg, Ref) and body.only_reader(arg.name) is reader:
        step = body.maker(arg, "ttnn.reshape", "ttnn.typecast", "ttnn.scatter")
        if step is None or step.kernel == "ttnn.scatter":
            scatter = step
            break
        reader, arg = step, step.attr("input_tensor")
    if scatter is None or scatter.attr("dim") not in (1, -2) or scatter.attr("reduce") is not None:
        return None
    cache, rows = _through(body, scatter.attr("input"), "ttnn.reshape"), scatter.attr("src")
    position = _through(body, scatter.attr("index"), "ttnn.reshape", "ttnn.expand")
    if not (isinstance(cache, Ref) and isinstance(rows, Ref) and isinstance(position, Ref)):
        return None
    if cache.name not in body.program.inputs or len(body.spec(cache).shape) != 4:
        return None
    batch, heads, length, depth = body.spec(cache).shape
    count = body.spec(rows).shape[1]
    flat = body.spec(scatter.attr("input")).shape == (batch * heads, length, depth)
    one_for_all = body.spec(position).shape == (count,)
    spread = body.spec(scatter.attr("index")).shape == (batch * heads, count, depth)
    same = body.spec(rows).dtype == body.spec(cache).dtype
    return _Put(cache, rows, position) if flat and one_for_all and spread and same else None


def _written_out_over_cache(body: Body, last: Step) -> list[Step] | None:
    """softmax((q k^T + mask) * factor) v of one token over static caches, as some models write it."""
    weights = _through(body, last.attr("input_tensor_a"), "ttnn.reshape", "ttnn.typecast")
    softmax = body.maker(weights, "ttnn.softmax")
    scaled = None if softmax is None else _unscaled(body, softmax.attr("input_tensor"))
    scores = None if scaled is None else body.maker(scaled.scores, "ttnn.matmul")
    if scaled is None or scores is None or not isinstance(scaled.mask, Ref):
        return None
    turned = body.maker(_through(body, scores.attr("input_tensor_b"), "ttnn.reshape"), "ttnn.permute")
    if turned is None or turned.attr("dims") not in ((0, 2, 1), (0, 1, 3, 2)):
        return None
    if body.only_reader(turned.outputs[0]) is None:
        return None
    keys, values = _put(body, turned.attr("input_tensor"), turned), _put(body, last.attr("input_tensor_b"), last)
    q = _through(body, scores.attr("input_tensor_a"), "ttnn.reshape", "ttnn.typecast")
    if keys is None or values is None or keys.position != values.position or not isinstance(q, Ref):
        return None
    batch, heads, _, depth = body.spec(keys.cache).shape
    shape, dtype = (batch, heads, 1, depth), body.spec(keys.cache).dtype
    out = body.specs[last.outputs[0]]
    numels = {body.spec(x).numel for x in (q, keys.rows, values.rows)} | {out.numel}
    if numels != {batch * heads * depth} or {body.spec(q).dtype, out.dtype} != {dtype}:
        return None
    steps, parts = [], []
    for part, letter in zip((q, keys.rows, values.rows), "qkv"):
        parts.append(body.fresh(f"{last.outputs[0]}.{letter}", shape, dtype))
        steps.append(reshape(part, shape, parts[-1]))
    whole = body.fresh(f"{last.outputs[0]}.whole", shape, dtype)
    attrs: dict[str, Arg] = {letter: Ref(name) for letter, name in zip("qkv", parts)}
    attrs |= {"keys": keys.cache, "values": values.cache, "position": keys.position}
    mask, sizes = scaled.mask, body.spec(scaled.mask).shape
    if len(sizes) < 4:
        mask = Ref(body.fresh(f"{last.outputs[0]}.mask", (1,) * (4 - len(sizes)) + sizes, "bool"))
        steps.append(reshape(scaled.mask, body.spec(mask).shape, mask.name))
    attrs |= {"mask": mask, "scale": scaled.factor}
    steps.append(Step(APPEND, tuple(attrs.items()), (whole,), last.origin))
    return [*steps, reshape(Ref(whole), out.shape, last.outputs[0])]


def _hides(body: Body, mask: Arg) -> Ref | None:
    """The condition of a mask that is 0 where it holds and very low elsewhere."""
    step = body.maker(_through(body, mask, "ttnn.typecast", "ttnn.reshape"), "ttnn.where")
    if step is None:
        return None
    seen, hidden = (_number(body, step.attr(name)) for name in ("true_value", "false_value"))
    look = step.attr("predicate")
    low = seen == 0 and hidden is not None and hidden <= -1e9
    return look if low and isinstance(look, Ref) and body.spec(look).dtype == "bool" else None


def _number(body: Body, arg: Arg) -> float | None:
    """The one number that an operand or a constant consists of."""
    if isinstance(arg, (int, float)):
        return float(arg)
    constant = next((c for c in body.program.constants if Ref(c.name) == arg), None)
    if constant is None or not constant.data:
        return None
    values = constant_tensor(constant, body.specs[constant.name]).unique()
    return float(values[0]) if values.numel() == 1 else None


@dataclass
class _Rows:
    """Where an operand of a product comes from: a value in half precision, and how its dimensions were turned."""

    source: Ref
    dims: tuple[int, ...] = field(default=())


def _written_out(body: Body, last: Step) -> list[Step] | None:
    """softmax((q k^T + causal mask) * factor) v as some models write it, in float32 but for the last product."""
    weights = _through(body, last.attr("input_tensor_a"), "ttnn.reshape", "ttnn.typecast")
    softmax = body.maker(weights, "ttnn.softmax")
    if softmax is None or body.specs[last.outputs[0]].dtype not in HALF:
        return None
    scaled = _unscaled(body, softmax.attr("input_tensor"))
    scores = None if scaled is None else body.maker(scaled.scores, "ttnn.matmul")
    if scaled is None or scores is None or scaled.mask != "causal":
        return None
    q, k = (_rows(body, scores.attr(f"input_tensor_{x}")) for x in "ab")
    if q is None or k is None or q.dims != (0, 2, 1, 3) or k.dims != (0, 2, 3, 1):
        return None
    batch, length, heads, depth = body.spec(q.source).shape
    value = last.attr("input_tensor_b")
    if (
        body.spec(k.source).shape != (batch, length, heads, depth)
        or body.spec(value).numel != batch * length * heads * depth
    ):
        return None
    dtype = body.specs[last.outputs[0]].dtype
    shape = (batch, heads, length, depth)
    steps, parts = [], []
    for rows in (q, k):
        name = body.fresh(f"{rows.source.name}.heads", shape, dtype)
        steps.append(permute(rows.source, (0, 2, 1, 3), name))
        parts.append(Ref(name))
    whole = body.fresh(f"{last.outputs[0]}.values", shape, dtype)
    out = body.fresh(f"{last.outputs[0]}.whole", shape, dtype)
    steps += [
        reshape(value, shape, whole),
        attention((*parts, Ref(whole)), None, True, scaled.factor, out),
        reshape(Ref(out), body.specs[last.outputs[0]].shape, last.outputs[0]),
    ]
    return steps


@dataclass(frozen=True)
class _Scaled:
    """(scores + mask) * factor; the mask is `causal`, or the condition under which it hides nothing."""

    scores: Arg
    mask: str | Ref
    factor: float


def _unscaled(body: Body, at: Arg) -> _Scaled | None:
    factor, mask = 1.0, None
    while True:
        step = body.maker(at, "ttnn.div", "ttnn.multiply", "ttnn.add", "ttnn.reshape")
        if step is None:
            return None if mask is None else _Scaled(at, mask, factor)
        number = next(
            (v for k, v in step.attrs if k in ("value", "input_tensor_b") and isinstance(v, (int, float))), None
        )
        if step.kernel == "ttnn.reshape":
            at = step.attr("input_tensor")
        elif step.kernel == "ttnn.add" and number is None and mask is None:
            added = step.attr("input_tensor_b")
            mask = "causal" if is_causal_mask(body, added) else _hides(body, added)
            if mask is None:
                return None
            at = step.attr("input_tensor_a")
        elif step.kernel != "ttnn.add" and number is not None:
            factor = factor / float(number) if step.kernel == "ttnn.div" else factor * float(number)
            at = step.attr("input_tensor_a")
        else:
            return None


def _through(body: Body, arg: Arg, *kernels: str) -> Arg:
    step = body.maker(arg, *kernels)
    while step is not None:
        arg = step.attr("input_tensor")
        step = body.maker(arg, *kernels)
    return arg


def _rows(body: Body, arg: Arg) -> _Rows | None:
    """An operand that is a value in half precision, cast to float32 and turned once, batch and heads then joined."""
    dims: tuple[int, ...] = ()
    while True:
        step = body.maker(arg, "ttnn.reshape", "ttnn.permute", "ttnn.typecast")
        if step is None:
            return None
        arg = step.attr("input_tensor")
        if step.kernel == "ttnn.permute":
            turned = step.attr("dims")
            if dims or not isinstance(turned, tuple):
                return None
            dims = turned  # type: ignore[assignment]
        elif step.kernel == "ttnn.reshape" and dims:
            return None
        spec = body.spec(arg)
        if dims and spec.dtype in HALF and len(spec.shape) == 4:
            assert isinstance(arg, Ref)
            return _Rows(arg, dims)
