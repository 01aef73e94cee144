"""A change that would make a call quicker, and what the plan says of it; and what no change of settings would."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Advice:
    """One change of settings, and what the plan says it saves. Modelled."""

    change: str
    saves_ns: int
    """On top of the changes before it."""
    alone_ns: int
    """Without them; 0 where it saves nothing by itself."""
    then_ns: int
    """The time of one call of every Program with this change and those before it."""
    how: str = ""
    """What to type."""
    places: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The calls that gain the most: `ttnn.linear in blocks.0.up, model.py:19`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What makes the compiler do it."""


@dataclass(frozen=True)
class Note:
    """What takes time that no setting saves, so that it is no advice: it cannot be applied and planned again."""

    what: str
    takes_ns: int
    """Of the call as it is: more than that cannot be saved here."""
    why: str
    """Why no setting does, or what would have to be written."""
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """A change of settings."""

    title: str
    how: str
    settings: dict[str, Any]
