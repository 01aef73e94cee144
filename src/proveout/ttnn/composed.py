"""ttnn functions that other calls serve: new tensors, renamed shapes, parts, calls in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from proveout.kernels.signatures import signatures
from proveout.kernels.table import kernels, torch_dtype
from proveout.ttnn.calls import call, run, serves
from proveout.ttnn.device import Device
from proveout.ttnn.enums import ROW_MAJOR_LAYOUT, DataType, bfloat16
from proveout.ttnn.functions import allocate_tensor_on_device, copy, from_torch
from proveout.ttnn.memory import MemoryConfig
from proveout.ttnn.tensor import Tensor

# ---- new tensors ---------------------------------------------------------------------------------------------------


def _filled(value: float) -> Callable[..., Tensor]:
    def make(shape: Sequence[int], **rest: Any) -> Tensor:
        return full(shape, value, **rest)

    return make


def _like(value: float | None) -> Callable[..., Tensor]:
    def make(tensor: Tensor, fill_value: float | None = value, **rest: Any) -> Tensor:
        arguments = {"dtype": tensor.dtype, "layout": tensor.layout, "device": tensor.device(), **rest}
        if tensor.device() is not None and "memory_config" not in arguments:
            arguments["memory_config"] = tensor.memory_config()
        assert fill_value is not None
        return full(tensor.shape, fill_value, **arguments)

    return make


@serves("ttnn.full")
def full(shape: Sequence[int], fill_value: float, **rest: Any) -> Tensor:
    """On the host where no device is given."""
    dtype, layout = rest.get("dtype") or bfloat16, rest.get("layout") or ROW_MAJOR_LAYOUT
    if rest.get("device") is None:
        kind = dtype.text.removeprefix("ttnn.")
        return from_torch(torch.full(tuple(shape), fill_value, dtype=torch_dtype(kind)), dtype, layout)
    arguments = {"shape": tuple(shape), "fill_value": fill_value, **rest, "dtype": dtype, "layout": layout}
    return run("ttnn.full", arguments)  # type: ignore[no-any-return]


for _name, _value in {"zeros": 0.0, "ones": 1.0}.items():
    serves(f"ttnn.{_name}")(_filled(_value))
    serves(f"ttnn.{_name}_like")(_like(_value))
serves("ttnn.full_like")(_like(None))


@serves("ttnn.empty")
def empty(shape: Sequence[int], device: Device, **rest: Any) -> Tensor:
    described = {"dtype": bfloat16, "layout": ROW_MAJOR_LAYOUT, **rest, "shape": shape}
    return allocate_tensor_on_device(device, **described)  # type: ignore[no-any-return]


@serves("ttnn.empty_like")
def empty_like(tensor: Tensor, **rest: Any) -> Tensor:
    device = rest.pop("device", tensor.device())
    described = {"dtype": tensor.dtype, "layout": tensor.layout, "memory_config": tensor.memory_config(), **rest}
    return allocate_tensor_on_device(device, shape=tensor.shape, **described)  # type: ignore[no-any-return]


@serves("ttnn.arange")
def arange(end: int, start: int = 0, step: int = 1, dtype: DataType = bfloat16, **rest: Any) -> Tensor:
    kind = torch_dtype(dtype.text.removeprefix("ttnn."))
    return from_torch(torch.arange(start, end, step).to(kind), dtype, **rest)  # type: ignore[no-any-return]


# ---- functions that others serve -----------------------------------------------------------------------------------


@serves("ttnn.squeeze")
def squeeze(input_tensor: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    rank = len(input_tensor.shape)
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    drop = {d % rank for d in dims if input_tensor.shape[d % rank] == 1}
    return call("ttnn.reshape", input_tensor, [n for i, n in enumerate(input_tensor.shape) if i not in drop])  # type: ignore[no-any-return]


@serves("ttnn.unsqueeze")
def unsqueeze(input_tensor: Tensor, dim: int) -> Tensor:
    shape = list(input_tensor.shape)
    shape.insert(dim % (len(shape) + 1), 1)
    return call("ttnn.reshape", input_tensor, shape)  # type: ignore[no-any-return]


@serves("ttnn.unsqueeze_to_4D")
def unsqueeze_to_4d(tensor: Tensor) -> Tensor:
    if len(tensor.shape) > 4:
        raise RuntimeError("TT_FATAL: Tensor rank is greater than 4")
    return call("ttnn.reshape", tensor, [1] * (4 - len(tensor.shape)) + list(tensor.shape))  # type: ignore[no-any-return]


_SLICED = {"starts": "slice_start", "ends": "slice_end", "steps": "slice_step"}


@serves("ttnn.slice")
def slice_(input_tensor: Tensor, **bound: Any) -> Tensor:
    """ttnn has two sets of names for the same; the kernel table knows one."""
    named = {_SLICED.get(k, k): v for k, v in bound.items()}
    if all(step == 1 for step in named.get("slice_step", ())):
        named.pop("slice_step", None)
    return run("ttnn.slice", {"input_tensor": input_tensor, **named})  # type: ignore[no-any-return]


@serves("ttnn.split")
def split(
    input_tensor: Tensor, split_size: int | Sequence[int], dim: int = 0, memory_config: MemoryConfig | None = None
) -> list[Tensor]:
    size, rank = input_tensor.shape[dim], len(input_tensor.shape)
    sizes = (
        [min(split_size, size - i) for i in range(0, size, split_size)] if isinstance(split_size, int) else split_size
    )
    if sum(sizes) != size:
        raise RuntimeError(f"TT_FATAL: ttnn.split: sizes {list(sizes)} do not add up to {size}")
    parts, start = [], 0
    for length in sizes:
        starts, ends = [0] * rank, list(input_tensor.shape)
        starts[dim], ends[dim] = start, start + length
        parts.append(call("ttnn.slice", input_tensor, starts, ends, [1] * rank, memory_config=memory_config))
        start += length
    return parts


@serves("ttnn.chunk")
def chunk(input_tensor: Tensor, chunks: int, dim: int) -> list[Tensor]:
    return split(input_tensor, -(-input_tensor.shape[dim] // chunks), dim)


@serves("ttnn.view")
@serves("ttnn.experimental.view")
def view(input_tensor: Tensor, shape: Sequence[int]) -> Tensor:
    return call("ttnn.reshape", input_tensor, shape)  # type: ignore[no-any-return]


@serves("ttnn.floor_div")
def floor_div(input_tensor_a: Tensor, input_tensor_b: Tensor | float) -> Tensor:
    return call("ttnn.floor", call("ttnn.div", input_tensor_a, input_tensor_b))  # type: ignore[no-any-return]


@serves("ttnn.xlogy")
def xlogy(input_tensor_a: Tensor, input_tensor_b: Tensor) -> Tensor:
    """Zero where the first is zero, whatever the logarithm."""
    product = call("ttnn.multiply", input_tensor_a, call("ttnn.log", input_tensor_b))
    return call("ttnn.where", call("ttnn.eq", input_tensor_a, 0.0), 0.0, product)  # type: ignore[no-any-return]


def _triangle(keep: Callable[..., torch.Tensor]) -> Callable[..., Tensor]:
    def make(input_tensor: Tensor, diagonal: int = 0) -> Tensor:
        kept = keep(torch.ones(tuple(input_tensor.shape)), diagonal)
        mask = from_torch(kept, input_tensor.dtype, input_tensor.layout, device=input_tensor.device())
        return call("ttnn.where", mask, input_tensor, 0.0)  # type: ignore[no-any-return]

    return make


serves("ttnn.tril")(_triangle(torch.tril))
serves("ttnn.triu")(_triangle(torch.triu))


@serves("ttnn.transformer.attention_softmax")
def attention_softmax(
    tensor: Tensor, head_size: int | None = None, attention_mask: Tensor | None = None, **rest: Any
) -> Tensor:
    """Scores over the square root of the head size, the mask added, then softmax."""
    if rest.pop("causal_mask", False):
        raise NotImplementedError("ttnn.transformer.attention_softmax with causal_mask=True is not served yet")
    rest.pop("program_config", None)
    if head_size is not None:
        tensor = call("ttnn.multiply", tensor, 1 / math.sqrt(head_size))
    if attention_mask is not None:
        tensor = call("ttnn.add", tensor, attention_mask)
    return call("ttnn.softmax", tensor, dim=-1, **rest)  # type: ignore[no-any-return]


def _cached(name: str) -> Callable[..., Tensor]:
    """A call that writes into the cache where it lies."""

    def write(cache_tensor: Tensor, **rest: Any) -> Tensor:
        return run(name, {"cache_tensor": cache_tensor, **rest, "output_tensor": cache_tensor})  # type: ignore[no-any-return]

    return write


for _name in ("ttnn.fill_cache", "ttnn.experimental.paged_fill_cache", "ttnn.experimental.paged_update_cache"):
    serves(_name)(_cached(_name))


@serves("ttnn.group_norm")
def group_norm(input_tensor: Tensor, **rest: Any) -> Tensor:
    """In place where it may be: in row-major layout, unless told otherwise."""
    into = {"output_tensor": input_tensor} if rest.get("inplace", True) and input_tensor.spec.layout != "tile" else {}
    return run("ttnn.group_norm", {"input_tensor": input_tensor, **rest, **into})  # type: ignore[no-any-return]


def _in_place(name: str, base: str) -> Callable[..., Tensor]:
    """A call whose result goes where its first operand lies. The two functions may name their operands differently."""
    taken = {p.name for overload in signatures()[base] for p in overload}
    operands = [p.name for p in signatures()[name][0][:2] if "Tensor" in p.annotation or p.name.startswith("input_")]

    def change(**bound: Any) -> Tensor:
        operand_values = [bound.pop(operand) for operand in operands if operand in bound]
        result: Tensor = call(base, *operand_values, **{k: v for k, v in bound.items() if k in taken})
        if result.spec != operand_values[0].spec:
            raise RuntimeError(f"TT_FATAL: {name} gives {result.spec} where {operand_values[0].spec} lies")
        return copy(result, operand_values[0])

    return change


_BASES = {
    "ttnn.divide_": "ttnn.div",
    "ttnn.softmax_in_place": "ttnn.softmax",
    "ttnn.scale_mask_softmax_in_place": "ttnn.scale_mask_softmax",
    "ttnn.transformer.attention_softmax_": "ttnn.transformer.attention_softmax",
    **{name: name[:-1] for name in signatures() if name.endswith("_") and name[:-1] in kernels()},
}
for _name, _base in _BASES.items():
    serves(_name)(_in_place(_name, _base))
for _alias, _base in {"ttnn.swish": "ttnn.silu", "ttnn.clip": "ttnn.clamp"}.items():
    serves(_alias)(lambda _base=_base, **bound: run(_base, bound))

ALIASES = {"sub": "subtract", "mul": "multiply", "divide": "div", "sub_": "subtract_", "mul_": "multiply_"}
"""Second names that ttnn's Python module gives."""
