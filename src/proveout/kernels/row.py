"""One row per kernel: everything that the product knows of a ttnn function, and the kinds that passes ask for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from proveout.chip.device_op import Buffers, DeviceOp, Work
from proveout.kernels.blockfloat import Packer
from proveout.reasons import Reason
from proveout.types import DeviceSpec, Layout, Memory, TensorSpec

Specs = Mapping[str, Any]
"""Attributes with every tensor replaced by its TensorSpec (tuples of them for lists)."""

FLOAT = frozenset({"float32", "bfloat16", "bfloat8_b", "bfloat4_b"})
INT = frozenset({"int32", "uint32"})

Kind = Literal[
    "product",  # of matrices: `input_tensor_a` times `input_tensor_b`, perhaps a `bias` and an `activation`
    "convolution",  # of `input_tensor` with `weight_tensor`
    "attention",
    "pool",
    "unary",  # of each element of `input_tensor`
    "binary",
    "ternary",
    "reduction",
    "scan",
    "sort",
    "norm",  # of the rows of `input_tensor`
    "batch norm",
    "softmax",
    "lookup",  # of rows of a table
    "index",  # picks or writes elements by position
    "layout",  # tiles or rows
    "memory",  # where a tensor lies
    "cast",
    "view",  # the same elements in the same order, under another shape
    "order",  # the same elements in another order: which dimension is which stays known
    "broadcast",  # the same elements, several times
    "join",
    "move",  # of elements, otherwise
    "creation",  # of a tensor from none
    "transfer",  # between the host and the chip
    "free",
    "collective",  # between chips
    "piece",  # another name for what one chip holds
    "other",
]

MOVES: frozenset[Kind] = frozenset({"layout", "memory", "view", "order", "broadcast", "join", "move", "lookup"})
MATRIX_UNIT: frozenset[Kind] = frozenset({"product", "convolution"})


def flat_specs(value: Any) -> list[TensorSpec]:
    """The TensorSpecs inside one attribute."""
    if isinstance(value, TensorSpec):
        return [value]
    return [s for v in value for s in flat_specs(v)] if isinstance(value, (tuple, list)) else []


@dataclass(frozen=True)
class Cut:
    """One way to divide a call: which dimension of which operands is cut, and along which one the results are joined.
    Along it no number depends on another, so a cut is exact."""

    extent: int
    """The operands' length along the dimension that is cut."""
    operands: Mapping[str, int]
    output: int
    granule: int = 1
    """Pieces are multiples of this, in elements of the operands: one image of a batch, say."""
    attrs: Callable[[int], dict[str, Any]] = field(default=lambda length: {})
    """Attributes that change with a piece's length."""


@dataclass(frozen=True)
class Weight:
    """The operand that holds a kernel's weight."""

    operand: str
    order: tuple[int, ...] = ()
    """How a convolution's is permuted to (height, width, channels in, channels out), the matrix that is packed."""


@dataclass(frozen=True)
class HostForm:
    """The ATen op that does to host tensors what a kernel does on the chip."""

    aten: str
    names: tuple[tuple[str, str], ...]
    """ttnn's name and ATen's of each argument."""

    def attrs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {theirs: arguments[ours] for ours, theirs in self.names if ours in arguments}


def on_host(aten: str, **names: str) -> HostForm:
    return HostForm(aten, tuple(names.items()))


@dataclass(frozen=True)
class Call:
    """One ttnn call, as far as what it becomes on the chip goes."""

    specs: Specs
    operands: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    work: Work
    fidelity: str

    @property
    def source(self) -> TensorSpec:
        return self.operands[0]

    @property
    def out(self) -> TensorSpec:
        return self.outputs[0]


@dataclass(frozen=True)
class Faithful:
    """How a kernel is computed by the chip's own rules, and how the chip is set for it."""

    meaning: Callable[..., Any]
    """(kernel's name, its settings, its arguments)."""
    compute: Callable[[Specs, TensorSpec, DeviceSpec, str | None], Any]
    """The settings, from specs, the result's spec, the chip, and the fidelity that the user chose for all Steps."""
    on_matrix_unit: Callable[[Specs], bool] = lambda specs: True
    """Whether the matrix unit reads the operands: it keeps fewer bits of float32 ones than the vector unit."""


Params = tuple[tuple[str, Any], ...]
DeviceOps = Callable[[Call], list[DeviceOp]]


def one_op(
    family: str,
    code: str = "",
    params: Callable[[Call], Params] = lambda call: (),
    buffers: Buffers | None = None,
) -> DeviceOps:
    """A call that is one device operation: its family, which decides its time and its L1; ttnn's name for it where the
    family has several; and what its L1 depends on, or the rule for that where it is not the family's."""

    def rule(call: Call) -> list[DeviceOp]:
        return [
            DeviceOp(family, call.operands, call.outputs, call.work, call.fidelity, None, code, params(call), buffers)
        ]

    return rule


def no_work(specs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    return Work()


@dataclass(frozen=True, eq=False)
class Kernel:
    """One row: what a ttnn function means, what it asks of its operands, and what it becomes on the chip."""

    name: str
    meaning: Callable[..., Any]
    """A torch function with ttnn's own argument names; its dtypes are the device's."""
    work: Callable[[Specs, Sequence[TensorSpec]], Work] = no_work
    kind: Kind = "other"
    """What passes, reports and devices tell kernels apart by."""
    device_ops: DeviceOps = one_op("other")
    """The device operations that a call becomes, in order; none where nothing is left to do, as for a reshape in
    place. Its time, its L1 and the rows of a perf sheet are theirs."""
    dtypes: frozenset[str] | None = None
    """Device dtypes that tensor operands may have; None takes any."""

    faithful: Faithful | None = None
    """Its numbers as the chip makes them, bit by bit; None: its meaning, rounded to the result's dtype."""

    # ---- what it takes and gives -----------------------------------------------------------------------------------
    layout: Layout | None = "tile"
    """The layout that tensor operands must have; None takes any."""
    out_layout: Layout | None = None
    """The layout of the result where it is not the operands'."""
    out_memory: Memory | None = None
    """Where the result lies unless a memory_config says otherwise, where that is not the operands' place."""
    fixed_memory: Callable[[Specs], Memory | None] | None = None
    """Where ttnn puts the result whatever `memory_config` says; None leaves it to that."""
    refuse: Callable[[Specs], Reason | None] | None = None
    """ttnn's own refusals, told from specs; None means accepted."""
    host_operands: frozenset[str] = field(default_factory=frozenset)
    """Operands that stay host-side ttnn tensors in row-major layout (conv weights: ttnn prepares them)."""
    dram_operands: frozenset[str] = field(default_factory=frozenset)
    """Operands that ttnn does not take from L1, unless they are cut over its cores."""
    user_shards: frozenset[str] = field(default_factory=frozenset)
    """Operands [1, users, heads, size] that ttnn takes cut over as many cores as there are users."""
    caches: frozenset[str] = field(default_factory=frozenset)
    """Operands that are a decoder's keys and values: they may be block floats where the others are not."""
    put_as_is: str = ""
    """The operand whose tiles go into such a cache as they are: it must be of the same dtype."""
    takes_host: bool = False
    """Whether it takes tensors that are not on the device."""
    writes_shards: bool = False
    """Whether it can write its result in shards, so that none of a norm's input need be moved into them."""
    weight: Weight | None = None
    packs: Packer | None = None
    """Who packs its operand, as it is, to a block float; None: the chip packs its bfloat16 result."""
    activation: str = ""
    """What a product calls it as its activation."""

    # ---- what may be done with it ----------------------------------------------------------------------------------
    view: bool = False
    """Whether the meaning may return a view of its operand."""
    shares_buffer: bool = False
    """Whether ttnn may give the result its operand's own buffer: the two are then freed together."""
    in_place: bool = False
    """Whether its result is its first operand's own buffer, written to."""
    cut: Callable[[Specs, Sequence[TensorSpec]], list[Cut]] | None = None
    """Every way we know to divide a call, outermost dimension first."""
    host: HostForm | None = None
    """The same for nothing on the host, where the operands are there anyhow."""
    across: Callable[..., Any] | None = None
    """The meaning over all chips at once, for the few kernels that move numbers to, from or between them; any other
    runs on each chip by itself. `ttnn.from_torch`'s also takes the meaning on one chip and the number of chips."""
    wire_bytes: Callable[[Sequence[TensorSpec], int], float] | None = None
    """Bytes that come to each chip from the others, given the results and the number of chips."""

    @property
    def moves(self) -> bool:
        """Whether it moves numbers and computes none."""
        return self.kind in MOVES

    @functools.cached_property
    def parameters(self) -> frozenset[str]:
        """The arguments that its meaning takes."""
        return frozenset(inspect.signature(self.meaning).parameters)
