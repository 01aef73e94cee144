"""Dataclasses as strict JSON and back, and a hash of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import stat
import types as _types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

T = TypeVar("T")
JSON_BYTES = 1 << 30
FILE_BYTES = 64 << 30
"""No file of ours is longer; a stranger's may be, without taking a disk."""
_SUSPECT = re.compile(rb"\\u[dD][89a-fA-F]|NaN|Infinity|[eE]\+?\d{3}|\d{19}")
"""What stands in all JSON whose values no store, table or stream of ours could keep, and in some other."""


def to_json(value: Any) -> Any:
    """A dataclass tree as strict JSON values: no NaN, no half of a character, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
    if isinstance(value, dict):
        return {to_json(str(k)): to_json(v) for k, v in value.items()}
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_value(data: bytes, bits: int | None = 64) -> Any:
    """The one JSON value in some bytes; ValueError where there is none, or one that cannot be written again, in tables
    too, whose numbers have 64 bits."""
    try:
        value = json.loads(data)
        if _SUSPECT.search(data):
            _check_kept(value, bits)
        return value
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None


def _check_kept(value: Any, bits: int | None) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_kept(key, bits)
            _check_kept(inner, bits)
    elif isinstance(value, list):
        for inner in value:
            _check_kept(inner, bits)
    elif isinstance(value, str):
        if not value.isascii() and value.encode(errors="replace").decode() != value:
            raise ValueError("a text in it has half of a character")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number in it is none (NaN or Infinity)")
    elif type(value) is int and bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"a number in it has more than {bits} bits")


def read_json(path: str | Path, most: int = JSON_BYTES, bits: int | None = 64) -> Any:
    """The one JSON value in a file; ValueError says what is wrong with it, OSError that it cannot be read."""
    return json_value(plain_bytes(path, most), bits)


def plain_bytes(path: str | Path, most: int = FILE_BYTES) -> bytes:
    """What a plain file holds. In a stranger's folder there may be a pipe, a device or a file without an end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return file.read(_plain_size(Path(path), os.fstat(file.fileno()), most))


def check_plain(path: Path) -> Path:
    """The same path; ValueError where it is no plain file."""
    _plain_size(path, os.stat(path), FILE_BYTES)
    return path


def _plain_size(path: Path, about: os.stat_result, most: int) -> int:
    if not stat.S_ISREG(about.st_mode):
        raise ValueError(f"{path.name} is not a plain file")
    if about.st_size > most:
        raise ValueError(f"{path.name} is longer than {most >> 20} MiB")
    return about.st_size


def from_json(cls: type[T], data: Any) -> T:
    """The inverse of `to_json` for a dataclass of plain values; ValueError says where and why it does not fit."""
    decode: Any = _decoder(typing.cast(Any, cls))
    try:
        return typing.cast(T, decode(data))
    except ValueError as error:
        raise _inside(cls.__name__, error) from None


def _inside(where: str, error: ValueError) -> ValueError:
    """The error with one more part of its path, while it is about a value and not about an object's fields."""
    return ValueError(f"{where}{error}" if str(error)[:1] in ".[ " else str(error))


@functools.cache
def _decoder(hint: Any) -> Callable[[Any], Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_decoder(hint)
    if hint is object:  # read by someone else
        return lambda data: data
    if origin is tuple:
        decoders = [_decoder(a) for a in args if a is not ...]
        return _list_decoder(decoders[0], args[0]) if args[1:] == (...,) else _tuple_decoder(decoders)
    if origin is dict:
        return _object_decoder
    if origin in (Union, _types.UnionType):
        return _union_decoder([a for a in args if a is not type(None)], type(None) in args)
    return _scalar_decoder(hint, args if origin is Literal else ())


def _dataclass_decoder(cls: type) -> Callable[[Any], Any]:
    decoders: dict[str, Callable[[Any], Any]] = {}

    def decode(data: Any) -> Any:
        if not decoders:
            decoders.update((name, _decoder(hint)) for name, hint in hints_of(cls).items())
        if not isinstance(data, dict):
            raise ValueError(f"expected an object for {cls.__name__}, found {type(data).__name__}")
        strange = data.keys() - decoders.keys()
        if strange:
            raise ValueError(f"{cls.__name__} has no field {sorted(strange)[0]!r}")
        values = {}
        for name, value in data.items():
            try:
                values[name] = decoders[name](value)
            except ValueError as error:
                raise _inside(f".{name}", error) from None
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from None

    return decode


def _list_decoder(inner: Callable[[Any], Any], hint: Any) -> Callable[[Any], Any]:
    def decode(data: Any) -> Any:
        if not isinstance(data, list):
            raise ValueError(f" expected a list, found {type(data).__name__}")
        if set(map(type, data)) == {hint}:  # thousands of samples, and nothing to convert
            return tuple(data)
        out = []
        for index, value in enumerate(data):
            try:
                out.append(inner(value))
            except ValueError as error:
                raise _inside(f"[{index}]", error) from None
        return tuple(out)

    return decode


def _object_decoder(data: Any) -> Any:
    """JSON that is kept as it is."""
    if not isinstance(data, dict):
        raise ValueError(f" expected an object, found {type(data).__name__}")
    return data


def _tuple_decoder(inners: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def decode(data: Any) -> Any:
        if not isinstance(data, list) or len(data) != len(inners):
            raise ValueError(f" is not a list of {len(inners)}")
        return tuple(inner(value) for inner, value in zip(inners, data))

    return decode


def _union_decoder(hints: list[Any], optional: bool) -> Callable[[Any], Any]:
    decoders = [_decoder(hint) for hint in hints]

    def decode(data: Any) -> Any:
        if data is None and optional:
            return None
        for inner in decoders[:-1]:
            with contextlib.suppress(ValueError):
                return inner(data)
        return decoders[-1](data)

    return decode


def _scalar_decoder(hint: Any, choices: tuple[Any, ...]) -> Callable[[Any], Any]:
    def decode(data: Any) -> Any:
        if choices:
            if data in choices and not isinstance(data, bool):
                return data
            raise ValueError(f" is {data!r}, not one of {', '.join(map(str, choices))}")
        if hint is float and type(data) is int:
            with contextlib.suppress(OverflowError):
                return float(data)
        if type(data) is hint:
            return data
        raise ValueError(f" is {data!r}, not {hint.__name__}")

    return decode


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    """The types of a class's fields."""
    return typing.get_type_hints(cls)


def digest(value: Any) -> str:
    """A stable hash of anything `to_json` takes."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
