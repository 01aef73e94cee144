"""How a call's arguments and outputs are nested, as JSON and back: containers by name, never a type or a module.

PyTorch's own reader of such a text imports what the text names; this one knows five containers and no more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec

from proveout.errors import UsageError

LEAF = "*"
MAX_DEPTH = 64
MAX_NODES = 100_000
_PLAIN: dict[str, type] = {"tuple": tuple, "list": list}
_KEYED: dict[str, type] = {"dict": dict, "ordered dict": OrderedDict}


def encode(structure: TreeSpec) -> Any:
    """The structure as JSON; UsageError where it holds another kind of container."""
    if structure.is_leaf():
        return LEAF
    children = [encode(child) for child in structure.children()]
    for kind, container in _PLAIN.items():
        if structure.type is container:
            return {kind: children}
    keys = list(structure.context) if isinstance(structure.context, (list, tuple)) else None
    if keys is not None and all(type(key) in (str, int) for key in keys):
        for kind, container in _KEYED.items():
            if structure.type is container:
                return {kind: [list(pair) for pair in zip(keys, children)]}
        if issubclass(structure.type, OrderedDict):  # what transformers' models give
            return {"fields": [_registered_name(structure.type), [list(pair) for pair in zip(keys, children)]]}
    what = f"a {structure.type.__name__}"
    raise UsageError(f"the call's arguments or outputs hold {what}; tuples, lists and dictionaries can be saved.")


def decode(data: Any) -> TreeSpec:
    """The inverse; ValueError where the JSON is no structure."""
    left = [MAX_NODES]

    def make(node: Any, depth: int) -> TreeSpec:
        left[0] -= 1
        if left[0] < 0 or depth > MAX_DEPTH:
            raise ValueError("the structure is too large")
        if node == LEAF:
            return pytree.tree_structure(0)
        if not isinstance(node, dict) or len(node) != 1:
            raise ValueError("a node of the structure is no container")
        ((kind, inside),) = node.items()
        if kind in _PLAIN and isinstance(inside, list):
            return TreeSpec(_PLAIN[kind], None, [make(child, depth + 1) for child in inside])
        if kind in _KEYED:
            return _keyed(_KEYED[kind], inside, depth, make)
        if kind == "fields" and isinstance(inside, list) and len(inside) == 2:
            return _keyed(_registered(inside[0]), inside[1], depth, make)
        raise ValueError(f"{str(kind)[:40]!r} is no container")

    return make(data, 0)


def _keyed(container: type, pairs: Any, depth: int, make: Callable[[Any, int], TreeSpec]) -> TreeSpec:
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise ValueError("a dictionary of the structure has no keys")
    keys = [key for key, _ in pairs]
    if not all(type(key) in (str, int) for key in keys) or len(set(keys)) != len(keys):
        raise ValueError("a dictionary of the structure has keys that cannot be")
    return TreeSpec(container, keys, [make(child, depth + 1) for _, child in pairs])


def _registered_name(container: type) -> str:
    return f"{container.__module__}.{container.__qualname__}"


def _registered(name: Any) -> type:
    """The class of fields that this process already knows by this name; a plain dictionary where it knows none."""
    for known in pytree.SUPPORTED_NODES:
        if isinstance(known, type) and issubclass(known, OrderedDict) and _registered_name(known) == name:
            return known
    return dict
