"""ttnn's config classes: constructors checked against ttnn's own, and fields that can be set later."""

from __future__ import annotations

import functools
from typing import Any

from proveout.kernels.signatures import constructors
from proveout.kernels.table import kernels
from proveout.program import Construct, Name
from proveout.ttnn.enums import Member, arg_of


class Config:
    """A config as its fields; Steps hold it as its constructor's call."""

    def __init__(self, **fields: Any) -> None:
        known = {p.name: p for p in constructors()[type(self).__name__]}
        missing = [n for n, p in known.items() if p.required and n not in fields]
        if missing:
            raise TypeError(f"ttnn.{type(self).__name__}(): incompatible function arguments: {missing} missing")
        object.__setattr__(self, "fields", {})
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        known = {p.name for p in constructors()[type(self).__name__]}
        if name not in known:
            raise TypeError(f"ttnn.{type(self).__name__}(): incompatible function arguments: it has no {name!r}")
        self.__dict__["fields"][name] = value

    def __getattr__(self, name: str) -> Any:
        parameters = {p.name: p for p in constructors().get(type(self).__name__, ())}
        if name not in parameters:
            raise AttributeError(f"ttnn.{type(self).__name__} has no {name!r}")
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        return {"None": None, "True": True, "False": False}.get(parameters[name].default, parameters[name].default)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.arg == other.arg

    def __hash__(self) -> int:
        return hash(self.arg)

    def __repr__(self) -> str:
        return str(self.arg)

    @property
    def arg(self) -> Construct:
        fields = {name: arg_of(value) for name, value in self.__dict__["fields"].items() if value is not None}
        return Construct.of(f"ttnn.{type(self).__name__}", **fields)

    def without(self, *names: str) -> Config:
        """A copy that leaves some fields at ttnn's defaults."""
        return type(self)(**{k: v for k, v in self.__dict__["fields"].items() if k not in names})


@functools.cache
def config(name: str) -> type[Config]:
    return type(name, (Config,), {"__doc__": f"ttnn.{name}.", "__module__": __name__})


WormholeComputeKernelConfig = config("WormholeComputeKernelConfig")


def init_device_compute_kernel_config(
    arch: Member, device_kernel_config: Config | None = None, **fields: Any
) -> Config:
    """The compute config of an architecture: the given one, or one with these fields."""
    if device_kernel_config is not None:
        return device_kernel_config
    return WormholeComputeKernelConfig(**{"math_fidelity": Name("ttnn.MathFidelity.LoFi"), **fields})


class UnaryWithParam:
    """An element-wise function that a kernel runs on its result before storing it."""

    def __init__(self, op: Any, *parameters: Any) -> None:
        if isinstance(op, tuple):
            op, *more = op
            parameters = (*more, *parameters)
        self.op_type, self.parameters = op, tuple(float(p) for p in parameters)

    @property
    def arg(self) -> Construct:
        return Construct.of("ttnn.UnaryWithParam", arg_of(self.op_type), *self.parameters)

    @property
    def kernel(self) -> tuple[str, dict[str, float]]:
        """The kernel that computes it, and its attributes."""
        name = self.op_type.name
        kernel = f"ttnn.{_KERNELS.get(name, name.lower())}"
        attributes = _PARAMETERS.get(name, ())
        approximate = name in APPROXIMATED and len(self.parameters) == 1
        if (
            kernel not in kernels()
            or kernels()[kernel].kind != "unary"
            or len(attributes) < len(self.parameters) - approximate
        ):
            raise NotImplementedError(f"ttnn.UnaryOpType.{name} as an activation is not served yet")
        return kernel, dict(zip(attributes, self.parameters))


APPROXIMATED = ("GELU", "EXP", "SIGMOID", "SQRT", "RSQRT", "ERF", "ERFC", "LOG", "TANH")
"""Functions whose one parameter asks for an approximation, which is not modelled."""
_KERNELS = {"RECIP": "reciprocal", "SWISH": "silu"}
_PARAMETERS = {"LEAKY_RELU": ("negative_slope",), "ELU": ("alpha",)}
