"""`metrics_path`: how each op was called, before and after, as the original's pickles and reports have it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from proveout.compat.torch_ttnn.tracing import op_type


def save_pickle(obj: Any, base_path: str, filename: str) -> None:
    """`metrics/BASE/FILE.pickle`."""
    folder = Path("metrics", base_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{filename}.pickle").write_bytes(pickle.dumps(obj))


@dataclass(frozen=True, repr=False)
class Inputs:
    """One argument: its type in the schema, its name, its shape where it is a tensor, else its value."""

    dtype: str
    name: str
    tensor: torch.Tensor | None = field(compare=False)
    text: str

    def __repr__(self) -> str:
        shape = "" if self.tensor is None else f"<{list(self.tensor.shape)}>"
        return f"{self.dtype}{shape} {self.name} = {self.text}"


@dataclass(frozen=True, repr=False)
class InputVariation:
    """One call of an ATen op."""

    opname: str
    inputs: tuple[Inputs, ...]

    def get_input_str_list(self) -> list[str]:
        return [str(one) for one in self.inputs]

    def __repr__(self) -> str:
        return f"{self.opname}:\n\t{', '.join(self.get_input_str_list())}\n"

    def dict(self) -> Mapping[str, Any]:
        return {"opname": self.opname, "inputs": self.get_input_str_list()}

    def dict_for_pickle(self) -> Mapping[str, Any]:
        """The same, with each tensor's shape and dtype."""
        infos = [
            {
                "name": str(one),
                "data_type": str(one.tensor.dtype),
                "buffer_type": "default",
                "layout": str(one.tensor.layout),
                "grid_shape": [],
                "shape": [int(size) for size in one.tensor.shape],
            }
            for one in self.inputs
            if one.tensor is not None
        ]
        return {**self.dict(), "tensor_infos": infos}


@dataclass(frozen=True, repr=False)
class ConvertedInput:
    """A ttnn call, and the ATen call that it comes from."""

    opname: str
    original_input_variation: InputVariation

    def __repr__(self) -> str:
        return f"{self.opname} --> {self.original_input_variation}"

    def dict(self) -> Mapping[str, Any]:
        return {"opname": self.opname, "original_inputs": self.original_input_variation.dict()}


def collect_input_variation_from_node(node: Node) -> InputVariation | None:
    """How an ATen op was called; None for a node that calls none."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    schema = {argument.name: str(argument.type) for argument in node.target._schema.arguments}
    arguments = {**dict(zip(schema, node.args)), **node.kwargs}
    return InputVariation(
        str(node.target), tuple(_input(schema[name], name, value) for name, value in arguments.items())
    )


def collect_input_variations_from_list_nodes(nodes: Iterable[Node]) -> list[InputVariation]:
    """How each of these nodes was called, in order."""
    return [variation for node in nodes if (variation := collect_input_variation_from_node(node)) is not None]


def collect_compiled(nodes: Iterable[Node], originals: Iterable[Node]) -> list[InputVariation | ConvertedInput]:
    """What became of the captured calls: ttnn's own with where each comes from, and those left on the host."""
    before = {
        node.name: variation for node in originals if (variation := collect_input_variation_from_node(node)) is not None
    }
    compiled: list[InputVariation | ConvertedInput] = []
    for node in nodes:
        original = before.get(node.meta["origin"].node) if "origin" in node.meta else None
        host = collect_input_variation_from_node(node)
        if host is not None:
            compiled.append(host)
        elif original is not None:
            compiled.append(ConvertedInput(op_type(node), original))
    return compiled


def _input(dtype: str, name: str, value: Any) -> Inputs:
    if isinstance(value, Node):
        held = value.meta.get("val")
        return Inputs(dtype, name, held if isinstance(held, torch.Tensor) else None, "?")
    return Inputs(dtype, name, None, "?" if value is None else _text(value))


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, Node):
        held = value.meta.get("val")
        return f"<{list(held.shape)}>" if isinstance(held, torch.Tensor) else str(held)
    return str(value)
