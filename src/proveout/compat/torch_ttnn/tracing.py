"""`tracer_option`: each graph's nodes with their shapes, as the original's `tools/generate_report.py` reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import Graph, Node

from proveout.errors import UsageError, unknown

KEYS = ("model_name", "out_folder", "trace_orig", "trace_modi")


@dataclass
class TraceFiles:
    """`OUT/raw/fw_MODEL_orig_0.json` for the graphs as captured, `…_modi_0.json` for what became of them."""

    model_name: str
    out_folder: Path
    trace_orig: bool = True
    trace_modi: bool = False
    written: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(option: dict[str, Any] | None) -> TraceFiles | None:
        if option is None:
            return None
        for key in option:
            if key not in KEYS:
                raise unknown("key of tracer_option", key, KEYS)
        missing = [key for key in KEYS[:2] if key not in option]
        if missing:
            raise UsageError(f"tracer_option has no {missing[0]!r}.")
        switches = bool(option.get("trace_orig", True)), bool(option.get("trace_modi", False))
        return TraceFiles(str(option["model_name"]), Path(option["out_folder"]), *switches)

    def write(self, original: Graph, modified: Graph, *, backward: bool) -> None:
        prefix = f"{'bw' if backward else 'fw'}_{self.model_name}"
        for kind, wanted, graph in (("orig", self.trace_orig, original), ("modi", self.trace_modi, modified)):
            if not wanted:
                continue
            stem = f"{prefix}_{kind}"
            path = self.out_folder / "raw" / f"{stem}_{self.written.get(stem, 0)}.json"
            self.written[stem] = self.written.get(stem, 0) + 1
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(parse_fx_graph(graph), indent=4))


def parse_fx_graph(graph: Graph) -> list[dict[str, Any]]:
    """Each call's op, and shape and dtype of what goes in and comes out."""
    return [
        {
            "op_type": op_type(node),
            "inputs": [_tensor(arg.meta.get("val")) if isinstance(arg, Node) else {} for arg in node.args],
            "outputs": _outputs(node.meta.get("val")),
        }
        for node in graph.nodes
        if node.op in ("call_function", "call_method")
    ]


def op_type(node: Node) -> str:
    """`aten.add.Tensor`, `ttnn.add`."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return f"{target.__module__.lstrip('_')}.{target.__name__}"


def _outputs(value: Any) -> list[dict[str, Any]]:
    return [_tensor(v) for v in (value if isinstance(value, (tuple, list)) else (value,))]


def _tensor(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor) or any(isinstance(size, torch.SymInt) for size in value.shape):
        return {}
    return {"shape": list(value.shape), "dtype": str(value.dtype)}
