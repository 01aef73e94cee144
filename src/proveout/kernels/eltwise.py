"""Element-wise kernels: unary, binary, ternary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from proveout.chip.device_op import DeviceOp, Work
from proveout.kernels import circular, cuts
from proveout.kernels.activations import activated, listed
from proveout.kernels.arithmetic.table import FUNCTIONS
from proveout.kernels.device_ops import typecast_op
from proveout.kernels.faithful import elements
from proveout.kernels.faithful.elements import binary
from proveout.kernels.faithful.functions import unary
from proveout.kernels.faithful.settings import on_vector_unit, plain
from proveout.kernels.row import FLOAT, INT, Call, Faithful, Kernel, Params, Specs, one_op
from proveout.reasons import Kind, Reason
from proveout.types import TensorSpec

WHERE_DTYPES = Kind("where-dtypes", "ttnn.where takes two values of one dtype")

Tensor = torch.Tensor
ANY = FLOAT | INT


def vector_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(outputs[0].padded_shape))


def multiply_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work(math.prod(outputs[0].padded_shape), phased=True)


def _unary(name: str, function: Callable[..., Tensor], dtypes: frozenset[str] = FLOAT, activation: str = "") -> Kernel:
    def meaning(input_tensor: Tensor, **parameters: Any) -> Tensor:
        return function(input_tensor, **parameters)

    return Kernel(
        f"ttnn.{name}",
        meaning,
        vector_work,
        "unary",
        one_op("unary"),
        dtypes,
        activation=activation,
        cut=cuts.elementwise,
        faithful=Faithful(unary, plain(), on_vector_unit) if name in FUNCTIONS else None,
    )


def _predicate(name: str, function: Callable[[Tensor], Tensor], dtypes: frozenset[str] = FLOAT) -> Kernel:
    """ttnn gives 0 and 1 in the operand's own dtype."""

    def meaning(input_tensor: Tensor) -> Tensor:
        return function(input_tensor).to(input_tensor.dtype)

    return Kernel(f"ttnn.{name}", meaning, vector_work, "unary", one_op("unary"), dtypes, cut=cuts.elementwise)


def gelu(x: Tensor, variant: str = "Accurate") -> Tensor:
    return F.gelu(x, approximate="tanh" if variant == "Tanh" else "none")


UNARY = [
    _unary("relu", torch.relu, ANY, activation="relu"),
    _unary("relu6", F.relu6),
    _unary("gelu", gelu),
    _unary("silu", F.silu, activation="silu"),
    _unary("mish", F.mish),
    _unary("tanh", torch.tanh, activation="tanh"),
    _unary("sigmoid", torch.sigmoid, activation="sigmoid"),
    _unary("exp", torch.exp),
    _unary("expm1", torch.expm1),
    _unary("log", torch.log),
    _unary("log1p", torch.log1p),
    _unary("sqrt", torch.sqrt),
    _unary("rsqrt", torch.rsqrt),
    _unary("reciprocal", torch.reciprocal),
    _unary("square", torch.square),
    _unary("neg", torch.neg, FLOAT | {"int32"}),
    _unary("abs", torch.abs, ANY),
    _unary("sign", torch.sign),
    _unary("floor", torch.floor),
    _unary("ceil", torch.ceil),
    _unary("trunc", torch.trunc),
    _unary("sin", torch.sin),
    _unary("cos", torch.cos),
    _unary("tan", torch.tan),
    _unary("asin", torch.asin),
    _unary("acos", torch.acos),
    _unary("atan", torch.atan),
    _unary("sinh", torch.sinh),
    _unary("cosh", torch.cosh),
    _unary("asinh", torch.asinh),
    _unary("acosh", torch.acosh),
    _unary("atanh", torch.atanh),
    _unary("log2", torch.log2),
    _unary("log10", torch.log10),
    _unary("exp2", torch.exp2),
    _unary("erf", torch.erf),
    _unary("erfc", torch.erfc),
    _unary("erfinv", torch.erfinv),
    _unary("round", lambda x, decimals=0: torch.round(x, decimals=decimals)),
    _unary("hardswish", F.hardswish),
    _unary("hardsigmoid", F.hardsigmoid),
    _unary("elu", lambda x, alpha=1.0: F.elu(x, alpha)),
    _unary("softplus", lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold)),
    _unary("leaky_relu", lambda x, negative_slope: F.leaky_relu(x, negative_slope)),
    _unary("hardtanh", lambda x, min_val=-1.0, max_val=1.0: F.hardtanh(x, min_val, max_val)),
    _unary("clamp", lambda x, min=None, max=None: torch.clamp(x, min, max), ANY),
    _predicate("isnan", torch.isnan),
    _predicate("isinf", torch.isinf),
    _predicate("isfinite", torch.isfinite),
    _predicate("logical_not", torch.logical_not, ANY),
]


def _binary(
    name: str,
    function: Callable[[Any, Any], Tensor],
    dtypes: frozenset[str] = ANY,
    scalar: str = "input_tensor_b",
    work: Callable[[Specs, Sequence[TensorSpec]], Work] = vector_work,
    writes_shards: bool = False,
    faithful: Faithful | None = None,
) -> Kernel:
    """A tensor with a tensor or a number; `scalar` is what ttnn calls the second operand when it is a number."""

    def meaning(
        input_tensor_a: Any,
        dtype: torch.dtype | None = None,
        input_tensor_a_activations: Sequence[Any] = (),
        input_tensor_b_activations: Sequence[Any] = (),
        activations: Sequence[Any] = (),
        **other: Any,
    ) -> Tensor:
        second = other["input_tensor_b"] if "input_tensor_b" in other else other[scalar]
        first, second = (
            activated(input_tensor_a, input_tensor_a_activations),
            activated(second, input_tensor_b_activations),
        )
        out = activated(function(first, second), activations)
        wanted = dtype or _operand_dtype(first, second)
        return out if out.dtype == wanted else out.to(wanted)

    return Kernel(
        f"ttnn.{name}",
        meaning,
        work,
        "binary",
        one_op("binary", params=_fused),
        dtypes,
        faithful,
        writes_shards=writes_shards,
        cut=cuts.elementwise,
    )


def _fused(call: Call) -> Params:
    """The activations that run inside the kernel, as the time model reads them."""
    places = {"input_tensor_a_activations": "lhs", "input_tensor_b_activations": "rhs", "activations": "post"}
    inside = tuple((at, name.upper()) for key, at in places.items() for name in listed(call.specs.get(key)))
    return (("fused", inside),) if inside else ()


def _operand_dtype(a: Any, b: Any) -> torch.dtype:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.promote_types(a.dtype, b.dtype)
    dtype: torch.dtype = a.dtype if isinstance(a, Tensor) else b.dtype
    return dtype


def _logical(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    return lambda a, b: function(torch.as_tensor(a) != 0, torch.as_tensor(b) != 0)


chips_own = Faithful(binary, plain(), on_vector_unit)
chips_sum = Faithful(binary, plain(), elements.unless_float32)

BINARY = [
    _binary("add", torch.add, writes_shards=True, faithful=chips_sum),
    _binary("subtract", torch.sub, writes_shards=True, faithful=chips_sum),
    _binary("multiply", torch.mul, work=multiply_work, writes_shards=True, faithful=chips_own),
    _binary("div", torch.true_divide, FLOAT, scalar="value", work=multiply_work, faithful=chips_own),
    _binary("rsub", torch.rsub, scalar="input_b", faithful=chips_sum),
    _binary("maximum", lambda a, b: torch.maximum(a, _like(b, a)), scalar="input_b", faithful=chips_own),
    _binary("minimum", lambda a, b: torch.minimum(a, _like(b, a)), scalar="input_b", faithful=chips_own),
    _binary("remainder", torch.remainder, FLOAT, faithful=chips_own),
    _binary("fmod", torch.fmod, FLOAT, scalar="scalar", faithful=chips_own),
    _binary("atan2", torch.atan2, FLOAT, faithful=chips_own),
    _binary("eq", torch.eq),
    _binary("ne", torch.ne),
    _binary("lt", torch.lt),
    _binary("le", torch.le),
    _binary("gt", torch.gt),
    _binary("ge", torch.ge),
    _binary("logical_and", _logical(torch.logical_and)),
    _binary("logical_or", _logical(torch.logical_or)),
    _binary("logical_xor", _logical(torch.logical_xor)),
    _binary("bitwise_and", torch.bitwise_and, INT, scalar="input_b"),
    _binary("bitwise_or", torch.bitwise_or, INT, scalar="input_b"),
    _binary("bitwise_xor", torch.bitwise_xor, INT, scalar="input_b"),
]


def _like(value: Any, tensor: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full((), value, dtype=tensor.dtype, device=tensor.device)


def power(input_tensor: Any, exponent: Any) -> Tensor:
    return torch.pow(input_tensor, exponent)


def where(predicate: Tensor, true_value: Any, false_value: Any) -> Tensor:
    """Of two numbers, in the predicate's own dtype."""
    out = torch.where(predicate if predicate.dtype == torch.bool else predicate != 0, true_value, false_value)
    return out if isinstance(true_value, Tensor) or isinstance(false_value, Tensor) else out.to(predicate.dtype)


def _where_refuses(specs: Specs) -> Reason | None:
    values = [v for k, v in specs.items() if k != "predicate" and isinstance(v, TensorSpec)]
    if len({v.dtype for v in values}) > 1:
        return WHERE_DTYPES()
    return None


def power_ops(call: Call) -> list[DeviceOp]:
    family = "binary" if len(call.operands) > 1 else "unary"
    return [DeviceOp(family, call.operands, call.outputs, call.work, call.fidelity)]


def where_ops(call: Call) -> list[DeviceOp]:
    """The predicate becomes what the values are first."""
    condition = replace(call.source, dtype=call.out.dtype)
    cast = [] if condition == call.source else [typecast_op(call.source, condition)]
    operands, rule = (condition, *call.operands[1:]), circular.ternary
    return [*cast, DeviceOp("binary", operands, call.outputs, call.work, call.fidelity, code="Ternary", buffers=rule)]


KERNELS = [
    *UNARY,
    *BINARY,
    Kernel(
        "ttnn.pow",
        power,
        multiply_work,
        "binary",
        power_ops,
        FLOAT,
        Faithful(elements.power, plain(), on_vector_unit),
        cut=cuts.elementwise,
    ),
    Kernel("ttnn.where", where, vector_work, "ternary", where_ops, refuse=_where_refuses, cut=cuts.elementwise),
]
