"""Sizes that follow the inputs. A Program says them in numbers, of one batch; written code reads them from its tensors.

Rules choose what to read, and a run on twice the batch shows whether they were right.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from proveout.arguments import Arg, Construct, Name, Ref, code, map_refs
from proveout.kernels.row import Kind
from proveout.kernels.table import kind_of
from proveout.program import Program, Step
from proveout.types import TensorSpec

WINDOWS = (("input_height", "input_width"), ("input_h", "input_w"))
"""How convolutions and pools are told the size of an image."""
MEETS: tuple[Kind, ...] = ("binary", "ternary", "join", "attention")
"""Kinds of calls in which a constant may have been made for the example's batch."""
DRAM = "ttnn.DRAM_MEMORY_CONFIG"


def batch_of(program: Program) -> int:
    """The first dimension of the first input that has one; 0 where there is none."""
    shapes = (program.specs[name].shape for name in program.inputs)
    return next((shape[0] for shape in shapes if shape), 0)


def sized(
    step: Step, specs: Mapping[str, TensorSpec], names: Mapping[str, str], batch: int, stable: Container[str]
) -> Step:
    """A Step with its sizes read from the tensor that it is called on; itself where that is no tensor of the call's."""
    first = next((name for name in step.uses if name not in stable), None)
    if first is None or first not in names:
        return step
    tensor, shape = names[first], specs[first].shape
    attrs: dict[str, Arg] = {key: _placed(arg, tensor, shape) for key, arg in step.attrs}
    if kind_of(step) in MEETS:
        attrs = {key: map_refs(arg, _meeting(step, specs, names, batch, stable)) for key, arg in attrs.items()}
    if kind_of(step) == "view" or step.kernel in ("aten.view.default", "aten.reshape.default"):
        attrs |= {key: _reshaped(attrs[key], batch) for key in ("shape", "size") if key in attrs}
    elif step.kernel == "ttnn.slice":
        attrs |= _sliced(step, tensor, shape)
    elif attrs.get("batch_size") == batch:
        attrs |= _windowed(step, tensor, shape, batch)
    return replace(step, attrs=tuple(attrs.items()))


def _placed(arg: Arg, tensor: str, shape: tuple[int, ...]) -> Arg:
    """A program config or a shard spec is for one shape; others get what ttnn chooses."""
    if not isinstance(arg, Construct):
        return arg
    text = f"at_shape({tensor}, {code(shape)}, {code(arg)})"
    if arg.name.endswith("ProgramConfig"):
        return Name(text)
    return Name(f"{text} or {DRAM}") if any(arg.inside("ttnn.ShardSpec")) else arg


def _reshaped(shape: Arg, batch: int) -> Arg:
    """The dimension that grows with the batch becomes -1: the first, or the rows of what goes into a convolution."""
    sizes = tuple(n for n in shape if isinstance(n, int) and n >= 0) if isinstance(shape, tuple) else ()
    if sizes != shape:
        return shape
    place = _growing(sizes, batch)
    return shape if place is None else (*sizes[:place], -1, *sizes[place + 1 :])


def _growing(shape: tuple[int, ...], batch: int) -> int | None:
    """The dimension that grows with the batch."""
    rows = 2 if len(shape) == 4 and shape[:2] == (1, 1) else 0
    place = rows if batch == 1 else next((i for i, n in enumerate(shape) if n != 1), 0)
    return place if shape and shape[place] and shape[place] % batch == 0 else None


def _meeting(
    step: Step, specs: Mapping[str, TensorSpec], names: Mapping[str, str], batch: int, stable: Container[str]
) -> Callable[[Ref], Arg]:
    """What a constant becomes beside a value of the call: one that is of the batch is repeated for another."""
    value = next(name for name in step.uses if name not in stable)
    shape = specs[value].shape
    place = _growing(shape, batch)

    def met(ref: Ref) -> Arg:
        own = specs[ref.name].shape
        if ref.name not in stable or place is None or len(own) != len(shape) or own[place] != shape[place]:
            return ref
        broadcasts = own[place] == 1 and kind_of(step) != "join"
        return ref if broadcasts else Name(f"at_batch({names[ref.name]}, {names[value]}, {place})")

    return met


def _sliced(step: Step, tensor: str, shape: tuple[int, ...]) -> dict[str, Arg]:
    """Ends that are the tensor's own sizes."""
    ends = step.attr("slice_end")
    if not isinstance(ends, tuple):
        return {}
    sizes = (Name(f"{tensor}.shape[{i}]") if n == shape[i] else n for i, n in enumerate(ends))
    return {"slice_end": tuple(sizes)}


def _windowed(step: Step, tensor: str, shape: tuple[int, ...], batch: int) -> dict[str, Arg]:
    """The batch of a convolution or a pool, whose input has all pixels as rows."""
    for height, width in WINDOWS:
        pixels = (step.attr(height), step.attr(width))
        if isinstance(pixels[0], int) and isinstance(pixels[1], int) and len(shape) == 4:
            area = pixels[0] * pixels[1]
            if shape[:2] == (1, 1) and shape[2] == batch * area:
                return {"batch_size": Name(f"{tensor}.shape[2] // {area}")}
            if shape[0] == batch:
                return {"batch_size": Name(f"{tensor}.shape[0]")}
    return {}
