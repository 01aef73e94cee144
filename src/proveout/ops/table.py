"""The op table: ATen overload -> lowering, guard, samples. One family a file; one row makes an op exist."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from proveout import ops as families
from proveout.program import Name
from proveout.reasons import Reason
from proveout.types import Layout

Range = tuple[int, int]
INT32: Range = (-(2**31), 2**31 - 1)
WIDE = "wide"
"""The dtype inside an op that eager computes in float32, whatever its operands: float32 under every precision."""


class Refused(Exception):
    """Raised by a lowering that cannot serve a call: the op stays on the host and this is the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor as a lowering sees it: eager's shape and dtype, and what is proven about its integers."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    range: Range | None = None
    """Proven bounds of an integer tensor's elements."""
    constant: Any = None
    """The torch tensor itself where it is known at compile time."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in ("float32", "bfloat16", "float16", "float64", WIDE)


class Builder(Protocol):
    """What a lowering may do. The compiler implements it; transfers, layouts and casts of operands are its business."""

    outs: Sequence[Value | None]
    """The ATen node's outputs as eager makes them: shapes and dtypes."""

    @property
    def out(self) -> Value: ...
    def used(self, index: int) -> bool:
        """Whether anything reads this output of the node."""
        ...

    def call(self, kernel: str, *, gives: str | None = None, range: Range | None = None, **attrs: Any) -> Value:
        """Emit one ttnn call. `gives` is eager's dtype of the result (default: the first operand's)."""
        ...

    def calls(
        self, kernel: str, *, gives: Sequence[str | None], ranges: Sequence[Range | None], **attrs: Any
    ) -> tuple[Value, ...]:
        """The same for a ttnn function that gives several tensors."""
        ...

    def refuses(self, kernel: str, **attrs: Any) -> Reason | None:
        """Why ttnn would refuse this call, or None; nothing is emitted."""
        ...

    def cast(self, x: Value, dtype: str) -> Value: ...
    def as_indices(self, x: Value) -> Value:
        """Integers as row-major uint32, which lookups take; the lookup itself bounds them."""
        ...

    def layout(self, x: Value, layout: Layout) -> Value: ...
    def reshape(self, x: Value, shape: Sequence[int]) -> Value: ...
    def permute(self, x: Value, dims: Sequence[int]) -> Value: ...
    def expand(self, x: Value, shape: Sequence[int]) -> Value: ...
    def constant(self, tensor: Any) -> Value: ...
    def dtype(self, dtype: str) -> Name:
        """The device dtype that stands for eager's, as ttnn names it."""
        ...


@dataclass(frozen=True)
class Sample:
    """Arguments to call an ATen op with, for its generated test. `name` says what is special about them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    name: str = ""


Lowering = Callable[..., "Value | tuple[Value | None, ...]"]
Guard = Callable[..., "Reason | None"]


@dataclass(frozen=True)
class Op:
    """One row."""

    aten: str
    lower: Lowering
    guard: Guard | None = None
    """Takes the call's arguments; a Reason says why the op stays on the host, None means yes."""
    samples: Callable[[], Iterator[Sample]] | None = None

    @property
    def kernels(self) -> tuple[str, ...]:
        """The ttnn kernels that the lowering names."""
        return tuple(sorted(_kernel_names(self.lower)))

    @property
    def doc(self) -> str:
        return " ".join((self.lower.__doc__ or "").partition("\n\n")[0].split())


_BUILDER_KERNELS = {
    "reshape": "ttnn.reshape",
    "permute": "ttnn.permute",
    "expand": "ttnn.expand",
    "cast": "ttnn.typecast",
}


def _kernel_names(function: Any, seen: frozenset[Any] = frozenset()) -> set[str]:
    """Kernel names in a function's constants and closure, and in those of our own functions that it calls. (Layouts and
    variants are ttnn's too, in capitals.)"""
    code = getattr(function, "__code__", None)
    if code is None or function in seen:
        return set()
    cells = [c.cell_contents for c in function.__closure__ or ()]
    called = [function.__globals__.get(n) for n in code.co_names] + cells
    ours = [f for f in called if getattr(f, "__module__", "").startswith("proveout.ops.") and hasattr(f, "__code__")]
    texts = {v for v in (*code.co_consts, *cells) if isinstance(v, str) and v.startswith("ttnn.")}
    names = {v for v in texts if v.rpartition(".")[2][:1].islower()}
    names.update(kernel for method, kernel in _BUILDER_KERNELS.items() if method in code.co_names)
    return names.union(*(_kernel_names(f, seen | {function}) for f in ours))


@functools.cache
def ops() -> dict[str, Op]:
    """All rows by ATen name: those that the files here list in `OPS`. A duplicate is an error."""
    table: dict[str, Op] = {}
    for file in pkgutil.iter_modules(families.__path__):
        for op in getattr(importlib.import_module(f"{families.__name__}.{file.name}"), "OPS", ()):
            assert op.aten not in table, f"two rows for {op.aten}"
            table[op.aten] = op
    return table


def all_ops() -> list[Op]:
    return sorted(ops().values(), key=lambda op: op.aten)


def normal_dim(dim: int, rank: int) -> int:
    """A possibly negative dimension as eager reads it; a 0-d tensor counts as 1-d."""
    return dim % max(rank, 1)
