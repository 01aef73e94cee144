"""A Program for torch, rewritten for a GPU: products take in their bias, activation, residuals and layer norms,
convolutions their batch norm, residual and ReLU; attention is one call that reads and writes rows where they lie.

What is in no pattern stays as it is. Only bfloat16 and float16 are rewritten: in float32 the library is as exact and
as fast as what we could write.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from proveout.devices.cuda.body import HALF, Body, permute, reshape
from proveout.devices.cuda.rewrite_conv import fuse_convolutions
from proveout.devices.cuda.rewrite_products import fuse_products
from proveout.kernels.table import constant_tensor
from proveout.program import Arg, Program, Ref, Step

SDPA = "ttnn.transformer.scaled_dot_product_attention"
EFFICIENT = "aten._scaled_dot_product_efficient_attention.default"


def rewrite(program: Program, fold: bool = True) -> Program:
    body = Body(program)
    fuse_attention(body)
    fuse_convolutions(body)
    fuse_products(body, fold)
    return body.done()


def fuse_attention(body: Body) -> None:
    for step in body.steps:
        if step.kernel == SDPA and body.specs[step.outputs[0]].dtype in HALF:
            causal, mask = bool(step.attr("is_causal", True)), step.attr("attn_mask")
            if mask is not None and is_causal_mask(body, mask):
                causal, mask = True, None
            depth = body.spec(step.attr("input_tensor_q")).shape[-1]
            scale = step.attr("scale")
            parts = tuple(step.attr(f"input_tensor_{x}") for x in "qkv")
            factor = float(scale) if isinstance(scale, (int, float)) else 1 / math.sqrt(depth)
            body.substitute([step], [attention(parts, mask, causal, factor, step.outputs[0])], step.outputs[0])
        elif step.kernel == EFFICIENT and not any(map(body.readers, step.outputs[1:])):
            _whole_attention(body, step)
        elif step.kernel == "ttnn.matmul":
            found = _written_out(body, step)
            if found is not None:
                body.substitute([step], found, step.outputs[0])


def _whole_attention(body: Body, step: Step) -> None:
    """PyTorch's own attention op, as graphs of models on a GPU have it."""
    q, dropout = body.spec(step.attr("query")), step.attr("dropout_p", 0.0)
    if q.dtype not in HALF or dropout or not body.results.isdisjoint(step.outputs[1:]):
        return
    scale = step.attr("scale")
    factor = float(scale) if isinstance(scale, (int, float)) else 1 / math.sqrt(q.shape[-1])
    parts = tuple(step.attr(x) for x in ("query", "key", "value"))
    made = attention(parts, step.attr("attn_bias"), bool(step.attr("is_causal", False)), factor, step.outputs[0])
    body.substitute([step], [made], step.outputs[0])


def attention(parts: tuple[Arg, ...], mask: Arg, causal: bool, scale: float, name: str) -> Step:
    names = ("q", "k", "v", "mask", "causal", "scale")
    return Step("proveout.attention.default", tuple(zip(names, (*parts, mask, causal, scale))), (name,))


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
    factor, hidden, at = 1.0, False, softmax.attr("input_tensor")
    while True:
        step = body.maker(at, "ttnn.div", "ttnn.multiply", "ttnn.add", "ttnn.reshape")
        if step is None:
            break
        number = next(
            (v for k, v in step.attrs if k in ("value", "input_tensor_b") and isinstance(v, (int, float))), None
        )
        if step.kernel == "ttnn.reshape":
            at = step.attr("input_tensor")
        elif step.kernel == "ttnn.add" and number is None and is_causal_mask(body, step.attr("input_tensor_b")):
            hidden, at = True, step.attr("input_tensor_a")
        elif step.kernel != "ttnn.add" and number is not None:
            factor = factor / float(number) if step.kernel == "ttnn.div" else factor * float(number)
            at = step.attr("input_tensor_a")
        else:
            return None
    scores = body.maker(at, "ttnn.matmul")
    if scores is None or not hidden:
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
        attention((*parts, Ref(whole)), None, True, factor, out),
        reshape(Ref(out), body.specs[last.outputs[0]].shape, last.outputs[0]),
    ]
    return steps


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
