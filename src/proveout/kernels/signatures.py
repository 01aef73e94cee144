"""ttnn's own signatures (0.81.1) for the kernels we have: what a Step's attributes must bind to."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class SignatureParameter:
    name: str
    annotation: str
    required: bool
    keyword_only: bool = False
    default: str = field(default="", compare=False)
    """As the signature writes it."""

    def may_take(self, tensor: bool) -> bool:
        """Whether its annotation admits a tensor, or something that is none."""
        if tensor:
            return "Tensor" in self.annotation
        return self.annotation not in ("Tensor", "torch.Tensor")


@functools.cache
def signatures() -> dict[str, list[tuple[SignatureParameter, ...]]]:
    """Per ttnn name, the parameters of each overload."""
    return {name: [tuple(_parse(s)) for s in overloads] for name, overloads in _read("ttnn_api")["signatures"].items()}


@functools.cache
def constructors() -> dict[str, tuple[SignatureParameter, ...]]:
    """The parameters of ttnn's config classes."""
    return {name: tuple(_parse(text)) for name, text in _read("ttnn_types")["constructors"].items()}


def enums() -> dict[str, list[str]]:
    """ttnn's enumerations and their members, in order."""
    members: dict[str, list[str]] = _read("ttnn_types")["enums"]
    return members


@functools.cache
def names() -> frozenset[str]:
    """Every public name of ttnn, served here or not."""
    return frozenset(_read("ttnn_names")["names"]) | frozenset(_read("ttnn_types")["names"])


@functools.cache
def _read(file: str) -> dict[str, Any]:
    text = resources.files("proveout.kernels").joinpath(f"{file}.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


@functools.cache
def parameters(name: str) -> frozenset[str]:
    """Every parameter name that some overload of a ttnn function takes."""
    return frozenset(p.name for overload in signatures()[name] for p in overload)


def _parse(signature: str) -> Iterator[SignatureParameter]:
    keyword_only = False
    for part in _parts(signature[signature.index("(") + 1 :]):
        if part == "*":
            keyword_only = True
        elif part and part != "/":
            head, _, default = part.partition("=")
            name, _, annotation = head.partition(":")
            yield SignatureParameter(name.strip(), annotation.strip(), not default, keyword_only, default.strip())


def _parts(inside: str) -> Iterator[str]:
    """What stands between top-level commas, up to the closing bracket."""
    depth, part = 0, ""
    for char in inside:
        if depth == 0 and char in ",)":
            yield part.strip()
            part = ""
            if char == ")":
                return
            continue
        depth += (char in "([{") - (char in ")]}")
        part += char
