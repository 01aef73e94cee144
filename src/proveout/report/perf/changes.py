"""A change that would make a call quicker, and what the plan says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Advice:
    """One change, and what the plan says it saves. Modelled."""

    change: str
    saves_ns: int
    """On top of the changes before it."""
    alone_ns: int
    """Without them; 0 where it saves nothing by itself."""
    then_ns: int
    """The time of one call of every Program with this change and those before it."""
    how: str = ""
    """What to type or to write."""
    places: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The calls that gain the most: `ttnn.linear in blocks.0.up, model.py:19`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What makes the compiler do it; empty where it is done by hand, as `how` says."""


@dataclass(frozen=True)
class Change:
    """A change of settings; without any, one that is made by hand."""

    title: str
    how: str
    settings: dict[str, Any] = field(default_factory=dict)
    saved_ns: int = 0
    """Of one by hand: what is known to go."""
    modules: tuple[str, ...] = ()
    """Where it is, of one whose saving is known."""
