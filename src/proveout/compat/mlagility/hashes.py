"""MLAgility's own hashes of a model, which its users' notes and command lines name: eight hex digits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def hashes_of(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Of the model as it prints itself, and of that with the shapes and dtypes of one call's inputs.

    A model that cannot print itself has none; a call with inputs that MLAgility refuses has the first only.
    """
    try:
        model_hash = _digest(str(model))
        numbered = {f"Positional Arg {i}": value for i, value in enumerate(args, 1)}
        described = _shapes_and_dtypes({**kwargs, **numbered})
    except Exception:  # the user's own __repr__, or arrays that numpy cannot take
        return ()
    return (
        (model_hash,) if described is None else (model_hash, _digest(f"{model_hash}None{described[0]}{described[1]}"))
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _shapes_and_dtypes(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    shapes: dict[str, Any] = {}
    dtypes: dict[str, Any] = {}
    for name in sorted(inputs):
        value = inputs[name]
        parts = {f"{name}[{i}]": v for i, v in enumerate(value)} if isinstance(value, (list, tuple)) else {name: value}
        for key, part in parts.items():
            if isinstance(part, (bool, int, float)):
                listed = key != name
                shapes[key], dtypes[key] = ((), _of_number(part)) if listed else ((1,), type(part).__name__)
            elif hasattr(part, "shape") and hasattr(part, "dtype"):
                shapes[key], dtypes[key] = tuple(part.shape), str(part.dtype).removeprefix("torch.")
            elif part is not None:
                return None
    return shapes, dtypes


def _of_number(value: float) -> str:
    return "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
