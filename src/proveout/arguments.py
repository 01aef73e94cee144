"""What a Step is called with: uses of values, names, objects made from arguments, numbers; as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

MAX_DEPTH = 32
"""How deep a saved argument may be nested."""


@dataclass(frozen=True)
class Ref:
    """A use of a value."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True)
class Name:
    """A constant known by its Python name: `ttnn.bfloat16`, `ttnn.TILE_LAYOUT`, `torch.int64`, `device`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Construct:
    """An object that is made from arguments, `ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b)`: prints as that code.

    It says how a call is made, and holds no value of the Program."""

    name: str
    args: tuple[tuple[str, Arg], ...] = ()
    """By name; those that go by place come first and have an empty one."""

    @staticmethod
    def of(name: str, *by_place: Arg, **by_name: Arg) -> Construct:
        return Construct(name, (*(("", arg) for arg in by_place), *by_name.items()))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={code(v)}' if k else code(v) for k, v in self.args)})"

    def __getitem__(self, place: int) -> Arg:
        return self.by_place[place]

    @property
    def by_place(self) -> tuple[Arg, ...]:
        return tuple(arg for name, arg in self.args if not name)

    @property
    def by_name(self) -> dict[str, Arg]:
        return {name: arg for name, arg in self.args if name}

    def inside(self, name: str) -> Iterator[Construct]:
        """Every Construct of this name in its arguments, however deep."""
        for _, arg in self.args:
            for one in arg if isinstance(arg, tuple) else (arg,):
                if isinstance(one, Construct):
                    yield from (one,) if one.name == name else one.inside(name)


Scalar = None | bool | int | float | complex | str
Arg = Union[Ref, Name, Construct, Scalar, tuple["Arg", ...]]  # noqa: UP007  (the forward reference forbids |)


def code(arg: Arg) -> str:
    """An argument that holds no value of a Program as Python; several are a list, as ttnn takes them."""
    if isinstance(arg, tuple):
        return f"[{', '.join(map(code, arg))}]"
    return str(arg) if isinstance(arg, (Name, Construct)) else repr(arg)


def refs(arg: Arg) -> Iterator[Ref]:
    """All uses of values inside an argument."""
    if isinstance(arg, Ref):
        yield arg
    elif isinstance(arg, tuple):
        for item in arg:
            yield from refs(item)


def map_refs(arg: Arg, change: Callable[[Ref], Arg]) -> Arg:
    """The argument with every use replaced."""
    if isinstance(arg, Ref):
        return change(arg)
    return tuple(map_refs(a, change) for a in arg) if isinstance(arg, tuple) else arg


def format_arg(arg: Arg) -> str:
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(format_arg, arg)) + ("," if len(arg) == 1 else "") + ")"
    return repr(arg) if isinstance(arg, str) else str(arg)


def arg_to_json(arg: Arg) -> Any:
    if isinstance(arg, Ref):
        return {"ref": arg.name}
    if isinstance(arg, Name):
        return {"name": arg.text}
    if isinstance(arg, Construct):
        return {"construct": [arg.name, [[k, arg_to_json(v)] for k, v in arg.args]]}
    if isinstance(arg, tuple):
        return [arg_to_json(a) for a in arg]
    if isinstance(arg, float) and not math.isfinite(arg):
        return {"float": str(arg)}
    if isinstance(arg, complex):
        return {"complex": [str(arg.real), str(arg.imag)]}
    return arg


def arg_from_json(data: Any, depth: int = 0) -> Arg:
    if depth > MAX_DEPTH:
        raise ValueError("an argument is nested too deeply")
    if isinstance(data, list):
        return tuple(arg_from_json(d, depth + 1) for d in data)
    if not isinstance(data, dict):
        return data  # type: ignore[no-any-return]
    if len(data) != 1:
        raise ValueError(f"an argument is an object with the keys {sorted(data)}")
    ((kind, value),) = data.items()
    if kind not in _DECODE:
        raise ValueError(f"an argument is of the unknown kind {kind!r}")
    return _DECODE[kind](value, depth)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is where a text belongs")
    return value


def _complex(value: Any) -> complex:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{value!r} is not a complex number")
    return complex(*(float(_string(part)) for part in value))


def _name(value: Any, depth: int) -> Name:
    if "(" in _string(value):
        raise ValueError(f"{value!r} is a config as text, as older versions saved it. Compile the model again")
    return Name(value)


def _construct(value: Any, depth: int) -> Construct:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list):
        raise ValueError(f"{value!r} is not a config")
    pairs = [pair if isinstance(pair, list) and len(pair) == 2 else (None, None) for pair in value[1]]
    return Construct(_string(value[0]), tuple((_string(key), arg_from_json(arg, depth + 1)) for key, arg in pairs))


_DECODE: dict[str, Callable[[Any, int], Arg]] = {
    "ref": lambda value, depth: Ref(_string(value)),
    "name": _name,
    "construct": _construct,
    "float": lambda value, depth: float(_string(value)),
    "complex": lambda value, depth: _complex(value),
}
"""The kinds of values that JSON has no notation for, as `arg_to_json` writes them."""


def renamed(data: Any, order: Mapping[str, str]) -> Any:
    """Uses replaced by their value's position, so that a fingerprint does not depend on how values are called."""
    if isinstance(data, dict):
        if set(data) == {"ref"}:
            return {"ref": order[data["ref"]]}
        if set(data) == {"construct"}:
            return {
                "name": str(arg_from_json(data))
            }  # as its text was once kept: what was compiled keeps its fingerprint
        return {k: renamed(v, order) for k, v in data.items()}
    if isinstance(data, list):
        return [renamed(v, order) for v in data]
    return data
