"""Layer norm and RMS norm from their parts: x · rsqrt(mean(x²) + ε), with the mean taken off first or not, through
float32 or not, times a weight, plus a bias. Each rule takes one step; they meet in one kernel."""

from __future__ import annotations

from dataclasses import replace

from proveout.compiler.program_passes.match import (
    Body,
    Fusion,
    Listed,
    Policy,
    either_way,
    fuse,
    is_plain,
    is_row,
    number,
)
from proveout.kernels.table import kernels, kind_of
from proveout.program import Arg, Program, Ref, Step


def fuse_norm(program: Program, policy: Policy) -> Program:
    def find(body: Body, step: Step) -> Fusion | None:
        return next((f for rule in RULES if (f := rule(body, step)) is not None), None)

    return fuse(program, find, policy)


def _scaled_by_its_size(body: Body, step: Step) -> Fusion | None:
    """x · rsqrt(mean(x²) + ε), or x / sqrt(mean(x²) + ε), is an RMS norm."""
    if step.kernel == "ttnn.multiply":
        pairs, root = either_way(step), "ttnn.rsqrt"
    elif step.kernel == "ttnn.div":
        pairs, root = either_way(step)[:1], "ttnn.sqrt"
    else:
        return None
    if not is_plain(step, "input_tensor_a", "input_tensor_b"):
        return None
    for x, size in pairs:
        spread = body.maker(size, root)
        safe = body.maker(spread.attr("input_tensor"), "ttnn.add") if spread else None
        epsilon = number(safe) if safe else None
        mean = _mean_of_rows(body, safe.attr("input_tensor_a")) if safe else None
        square = body.maker(mean.attr("input_tensor")) if mean else None
        if spread and safe and mean and square and epsilon and _squares(square, x):
            attrs: tuple[tuple[str, Arg], ...] = (("input_tensor", x), ("epsilon", epsilon))
            norm = Step("ttnn.rms_norm", attrs, step.outputs, step.origin)
            return Fusion((square, mean, safe, spread, step), (norm,))
    return None


def _centred(body: Body, step: Step) -> Fusion | None:
    """The RMS norm of x - mean(x) is a layer norm of x."""
    if step.kernel != "ttnn.rms_norm" or step.attr("weight") is not None:
        return None
    centre = body.maker(step.attr("input_tensor"), "ttnn.subtract")
    mean = _mean_of_rows(body, centre.attr("input_tensor_b")) if centre else None
    if centre is None or mean is None or mean.attr("input_tensor") != centre.attr("input_tensor_a"):
        return None
    norm = replace(step.with_attrs(input_tensor=mean.attr("input_tensor")), kernel="ttnn.layer_norm")
    return Fusion((mean, centre, step), (norm,))


def _through_float32(body: Body, step: Step) -> Fusion | None:
    """A norm in float32 between two casts: the kernel has it so inside, and rounds once, where the cast back does."""
    norm = body.maker(step.attr("input_tensor"), kind="norm") if kind_of(step) == "cast" else None
    if norm is None or not is_plain(norm, "input_tensor", "epsilon"):
        return None
    cast = body.maker(norm.attr("input_tensor"), kind="cast")
    if cast is None or body.specs[cast.uses[0]].dtype != "bfloat16" or body.specs[cast.outputs[0]].dtype != "float32":
        return None
    narrow = norm.with_attrs(input_tensor=Ref(cast.uses[0]))
    narrow = replace(narrow, outputs=step.outputs, origin=step.origin)
    alone = body.readers(cast.outputs[0]) == [norm]
    return Fusion((*((cast,) if alone else ()), norm, step), (narrow,), rounds_alike=True)


def _weighted(body: Body, step: Step) -> Fusion | None:
    return _affine(body, step, "ttnn.multiply", "weight")


def _shifted(body: Body, step: Step) -> Fusion | None:
    """After the weight: a shift before it would be scaled by it."""
    return _affine(body, step, "ttnn.add", "bias")


def _affine(body: Body, step: Step, kernel: str, parameter: str) -> Fusion | None:
    if step.kernel != kernel or not is_plain(step, "input_tensor_a", "input_tensor_b"):
        return None
    for result, row in either_way(step):
        norm = body.maker(result, kind="norm")
        if norm is None or not isinstance(row, Ref) or norm.attr(parameter) is not None or norm.attr("bias"):
            continue
        if parameter not in kernels()[norm.kernel].parameters:
            continue
        out = body.specs[norm.outputs[0]]
        if is_row(body.spec(row), out.shape[-1]) and body.spec(row).dtype == out.dtype:
            whole = replace(norm, attrs=(*norm.attrs, (parameter, row)), outputs=step.outputs, origin=step.origin)
            return Fusion((norm, step), (whole,))
    return None


def _mean_of_rows(body: Body, arg: Arg) -> Step | None:
    """The Step that makes a mean over the last dimension, kept."""
    mean = body.maker(arg, "ttnn.mean")
    if mean is None or mean.attr("keepdim") is not True:
        return None
    rank = len(body.spec(mean.attr("input_tensor")).shape)
    return mean if mean.attr("dim") in ((rank - 1,), (-1,), rank - 1, -1) else None


def _squares(step: Step, x: Arg) -> bool:
    match step.kernel:
        case "ttnn.square":
            return step.attr("input_tensor") == x
        case "ttnn.pow":
            return step.attr("input_tensor") == x and number(step) == 2.0
        case "ttnn.multiply":
            return step.attr("input_tensor_a") == x == step.attr("input_tensor_b")
    return False


RULES = (_scaled_by_its_size, _centred, _through_float32, _weighted, _shifted)


FUSIONS = (Listed("formulas", 2, fuse_norm),)
