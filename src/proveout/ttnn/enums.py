"""ttnn's enumerations, dtypes and layouts, as Names that Steps and exported scripts hold; and any value as they do."""

from __future__ import annotations

import functools
from typing import Any

from proveout.kernels import signatures
from proveout.program import Arg, Name

SPELLED = {
    "Layout": {"TILE": "ttnn.TILE_LAYOUT", "ROW_MAJOR": "ttnn.ROW_MAJOR_LAYOUT"},
    "DataType": {n.upper(): f"ttnn.{n}" for n in
                 ("bfloat16", "float32", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "uint32", "int32")},
}  # fmt: skip
"""Members that Steps know by a shorter name."""


class Member(Name):
    """One member of an enumeration; prints as ttnn's do."""

    @property
    def name(self) -> str:
        last = self.text.rpartition(".")[2]
        short = {text: name for name, text in SPELLED.get(type(self).__name__, {}).items()}
        return short.get(self.text, last)

    @property
    def value(self) -> int:
        return signatures.enums()[type(self).__name__].index(self.name)

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __repr__ = __str__


def _fill(enum: type[Member]) -> None:
    for member in signatures.enums()[enum.__name__]:
        text = SPELLED.get(enum.__name__, {}).get(member, f"ttnn.{enum.__name__}.{member}")
        setattr(enum, member, enum(text))


class DataType(Member):
    """A ttnn dtype."""


class Layout(Member):
    """A ttnn layout."""


class TensorMemoryLayout(Member):
    """How a tensor lies over the banks or cores."""


class BufferType(Member):
    """Which memory of the chip."""


class ShardOrientation(Member):
    """Whether shards go to cores row by row or column by column."""


class ShardStrategy(Member):
    """Which dimensions of a tensor are cut into shards."""


class StorageType(Member):
    """Host or device."""


for _enum in (DataType, Layout, TensorMemoryLayout, BufferType, ShardOrientation, ShardStrategy, StorageType):
    _fill(_enum)

bfloat16, float32 = DataType("ttnn.bfloat16"), DataType("ttnn.float32")
bfloat8_b, bfloat4_b = DataType("ttnn.bfloat8_b"), DataType("ttnn.bfloat4_b")
int32, uint32, uint16, uint8 = (DataType(f"ttnn.{d}") for d in ("int32", "uint32", "uint16", "uint8"))
TILE_LAYOUT, ROW_MAJOR_LAYOUT = Layout("ttnn.TILE_LAYOUT"), Layout("ttnn.ROW_MAJOR_LAYOUT")
HEIGHT_SHARDED, WIDTH_SHARDED, BLOCK_SHARDED, INTERLEAVED = (
    TensorMemoryLayout(f"ttnn.TensorMemoryLayout.{n}")
    for n in ("HEIGHT_SHARDED", "WIDTH_SHARDED", "BLOCK_SHARDED", "INTERLEAVED")
)


@functools.cache
def enum(name: str) -> type[Member]:
    """Any other of ttnn's enumerations."""
    members: type[Member] = type(name, (Member,), {"__doc__": f"ttnn.{name}.", "__module__": __name__})
    _fill(members)
    return members


def arg_of(value: Any) -> Arg:
    """A value that is no tensor as a Step's argument: what has an `arg` says itself how it is made."""
    if isinstance(value, (list, tuple)):
        return tuple(map(arg_of, value))
    if isinstance(value, Name):
        return Name(value.text)  # not the enumeration's member, which is another class
    return getattr(value, "arg", value)


def member(enumeration: type[Member], name: str) -> Any:
    return getattr(enumeration, name)
