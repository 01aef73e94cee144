"""What the tracer writes down of a model: each node's op, and shape, dtype and bytes of what goes in and comes out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proveout import folders
from proveout.coding import digest, from_json, read_json, to_json
from proveout.errors import UsageError

Phase = Literal["forward", "backward"]
SCHEMA = 1


@dataclass(frozen=True)
class TracedTensor:
    """One tensor of a node; `nbytes` at the dtype's real size, on the chip with tile padding."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int


@dataclass(frozen=True)
class Node:
    name: str
    op: str
    inputs: tuple[TracedTensor, ...] = ()
    outputs: tuple[TracedTensor, ...] = ()


@dataclass(frozen=True)
class TracedGraph:
    phase: Phase
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class TracedModel:
    """All graphs of one model: the original ATen ones, or what the compiler made of them."""

    model: str
    script: str
    selector: str
    kind: Literal["original", "compiled"]
    graphs: tuple[TracedGraph, ...]
    note: str = ""
    """Why a part that was asked for is missing."""
    schema: int = SCHEMA

    def count(self, phase: Phase) -> int:
        return sum(len(graph.nodes) for graph in self.graphs if graph.phase == phase)


def file_name(model: str, selector: str, kind: str) -> str:
    """A file's stem that two models, or two kinds of graph, never share."""
    return f"{folders.file_name(model)}-{digest([model, selector])[:8]}-{kind}"


def save(dump: TracedModel, folder: Path) -> Path:
    path = folder / f"{file_name(dump.model, dump.selector, dump.kind)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(to_json(dump), indent=0) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def load(folder: Path) -> list[TracedModel]:
    """Every dump in a folder, by file name."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise UsageError(f"there are no raw dumps in {folder}. Make some: proveout trace MODEL")
    dumps = []
    for path in paths:
        try:
            dumps.append(from_json(TracedModel, read_json(path)))
        except ValueError as error:
            raise UsageError(f"{path} is not a raw dump: {error}. Remove it, or trace its model again.") from None
    return dumps
