"""What a flat column is: its name and SQL type, how a Record gives it, and how each place shows it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from proveout.columns.words import NOTHING, plain
from proveout.types import Record

if TYPE_CHECKING:
    from proveout.columns.table import Row

T = TypeVar("T")

Place = Literal["terminal", "markdown", "html"]
Shape = Literal["text", "name", "status", "number", "pcc", "share", "trend"]
LATE = 500
"""Where a column stands that names no order: after the figures, before the reason."""


@dataclass(frozen=True)
class Shown:
    """One column of the table of models in terminal, Markdown and HTML."""

    title: str
    short: str
    explain: str
    show: Callable[[Row], str | None] | None = None
    """The words for its value; None shows the value by its type."""
    order: int = LATE
    """From left to right."""
    numeric: bool = True
    kind: str = ""
    """The flat column that says where the value comes from: a clock, a model or both."""
    drop: int = 1
    """The order in which a narrow terminal gives columns up; 0 keeps it."""
    places: tuple[Place, ...] = ("terminal", "markdown", "html")
    empty: str = NOTHING
    distinguishes: bool = False
    """It is there to tell rows apart, and left out where all have the same value."""
    key: str = ""
    """The flat column it sorts by: that of its row in the table, which fills it in."""

    def value(self, flat: Row) -> str:
        """The value alone, or what stands for none."""
        return (self.show(flat) if self.show else plain(getattr(flat, self.key))) or self.empty

    def text(self, flat: Row) -> str:
        """The value with its kind: `0.42 (modelled)`."""
        value = self.value(flat)
        return f"{value} ({getattr(flat, self.kind)})" if self.kind and value != self.empty else value


@dataclass(frozen=True)
class OnBoard:
    """One column of the explorer's board."""

    title: str
    order: int = LATE
    """From left to right."""
    shape: Shape = "text"
    format: str | None = None
    width: Literal["small", "medium", "large"] | int | None = None
    help: str | None = None
    pinned: bool = False
    value: Callable[[Row], Any] | None = None
    """What it draws; None draws the flat column."""
    key: str = ""
    """Its name in the board's CSV; the table fills in that of the flat column."""


@dataclass(frozen=True)
class Column:
    """One flat column of a Record."""

    read: Callable[[Record], Any]
    """None is unknown."""
    shown: tuple[Shown, ...] = ()
    """Its columns in the table of models; SQL, CSV and JSON have it in any case."""
    board: tuple[OnBoard, ...] | None = None
    """Its columns on the explorer's board; None shows there what the table of models shows."""
    name: str = ""
    sql: str = ""
    """Its type in the SQL table `records`; the field of `Row` says both."""


def column(read: Callable[[Record], T], shown: tuple[Shown, ...] = (), board: tuple[OnBoard, ...] | None = None) -> T:
    """A field of `Row` with its Column; typed as what it reads, as `dataclasses.field` is."""
    return cast(T, dataclasses.field(metadata={"column": Column(read, shown, board)}))


SQL: dict[Any, str] = {str: "varchar", int: "bigint", float: "double", bool: "boolean", tuple[str, ...]: "varchar[]"}


def sql_type(hint: Any) -> str:
    """A field's type in SQL, where every column may be unknown."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (kind for kind in get_args(hint) if kind is not type(None))
    return "varchar" if get_origin(hint) is Literal else SQL[hint]
