"""ttnn's own signatures (0.81.1) for the kernels we have: what a Step's attributes must bind to."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str
    required: bool


@functools.cache
def signatures() -> dict[str, list[tuple[Parameter, ...]]]:
    """Per ttnn name, the parameters of each overload."""
    text = resources.files("proveout.kernels").joinpath("ttnn_api.json").read_text()
    return {name: [tuple(_parse(s)) for s in overloads] for name, overloads in json.loads(text)["signatures"].items()}


@functools.cache
def parameters(name: str) -> frozenset[str]:
    """Every parameter name that some overload of a ttnn function takes."""
    return frozenset(p.name for overload in signatures()[name] for p in overload)


def binding_error(name: str, attributes: Mapping[str, bool]) -> str | None:
    """Why a call binds to no overload, or None. `attributes` says of each given name whether it is a tensor."""
    if name not in signatures():
        return f"ttnn {name} has no signature in our copy"
    reasons = []
    for overload in signatures()[name]:
        known = {p.name: p for p in overload}
        strange = [a for a in attributes if a not in known]
        missing = [p.name for p in overload if p.required and p.name not in attributes]
        wrong = [a for a, tensor in attributes.items() if a in known and tensor != _may_be_tensor(known[a], tensor)]
        if not (strange or missing or wrong):
            return None
        reasons.append(f"unknown {strange}, missing {missing}, of another kind {wrong}")
    return f"{name}: no overload takes this call ({'; '.join(reasons)})"


def _may_be_tensor(parameter: Parameter, tensor: bool) -> bool:
    has_tensor = "Tensor" in parameter.annotation.replace("MemoryConfig", "")
    only_tensor = parameter.annotation.split("|")[0].strip() in ("Tensor", "torch.Tensor") and "|" not in parameter.annotation
    return has_tensor if tensor else only_tensor


def _parse(signature: str) -> Iterator[Parameter]:
    inside = signature[signature.index("(") + 1 :]
    depth, part = 0, ""
    for char in inside:
        if depth == 0 and char in ",)":
            parameter = _parameter(part.strip())
            if parameter:
                yield parameter
            part = ""
            if char == ")":
                return
            continue
        depth += (char in "([{") - (char in ")]}")
        part += char


def _parameter(text: str) -> Parameter | None:
    if not text or text in ("*", "/"):
        return None
    head, _, default = text.partition("=")
    name, _, annotation = head.partition(":")
    return Parameter(name.strip(), annotation.strip(), required=not default)
