"""`ttnn.graph`: what calls become, as ttnn's own capture tells it: functions, device operations, buffers, in order.

A graph is a list of nodes. Calls run as ever while one is captured. Sizes are the modelled chip's; there are no
durations, since nothing ran on one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from proveout.chip.device_op import DeviceOp
from proveout.chip.memory import bytes_per_bank
from proveout.kernels.circular import held_by
from proveout.kernels.cost import step_device_ops
from proveout.kernels.op_codes import op_code
from proveout.program import Step
from proveout.types import DeviceSpec, Settings, TensorSpec

Node = dict[str, Any]


class RunMode(Enum):
    """ttnn's two modes. Both compute here: a program that is not dispatched would have no numbers."""

    NORMAL = 0
    NO_DISPATCH = 1


@dataclass(frozen=True)
class PeakMemoryUsagePerCore:
    """Most L1 of one core, in bytes."""

    peak_cb: int
    peak_l1: int
    peak_total: int
    peak_dataflow_buffer: int = 0
    peak_scratchpad: int = 0


@dataclass(frozen=True)
class TensorInfo:
    """One result."""

    shape: tuple[int, ...]
    size: int
    type: str


@dataclass
class _Capture:
    mode: RunMode
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[int, int] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)

    def add(self, node_type: str, level: int, params: Mapping[str, Any] | None = None) -> Node:
        node: Node = {
            "arguments": [], "connections": [], "counter": len(self.nodes), "input_tensors": [],
            "node_type": node_type, "params": dict(params) if params is not None else None, "stacking_level": level,
        }  # fmt: skip
        self.nodes.append(node)
        return node

    def tensor(self, key: Any, spec: TensorSpec, level: int) -> None:
        self.kept.append(key)
        number = self.tensors.setdefault(id(key), len(self.tensors))
        shape = f"Shape({list(spec.shape)})"
        layout = "Layout::TILE" if spec.layout == "tile" else "Layout::ROW_MAJOR"
        params = {
            "tensor_id": str(number),
            "shape": shape,
            "dtype": f"DataType::{spec.dtype.upper()}",
            "layout": layout,
        }
        self.add("tensor", level, {**params, "memory_config": str(spec.memory)})


_active: list[_Capture] = []


def begin_graph_capture(run_mode: RunMode | None = None) -> None:
    if _active:
        raise RuntimeError("TT_FATAL: a graph is being captured already")
    capture = _Capture(run_mode or RunMode.NORMAL)
    capture.add("capture_start", 0)
    _active.append(capture)


def end_graph_capture() -> list[Node]:
    if not _active:
        raise RuntimeError("TT_FATAL: no graph is being captured: call ttnn.graph.begin_graph_capture first")
    capture = _active.pop()
    capture.add("capture_end", 0)
    for node, following in zip(capture.nodes, capture.nodes[1:]):
        node["connections"] = [following["counter"]]
    return capture.nodes


def end_graph_capture_to_file(report_path: str | Path) -> list[Node]:
    nodes = end_graph_capture()
    Path(report_path).write_text(json.dumps(nodes, indent=1))
    return nodes


def is_graph_capture_active() -> bool:
    return bool(_active)


# ---- while calls run -----------------------------------------------------------------------------------------------


def called(
    step: Step, specs: Mapping[str, TensorSpec], chip: DeviceSpec, reads: Sequence[Any], writes: Sequence[Any]
) -> None:
    """Note a call: its operands and results are (key, spec) pairs."""
    for capture in _active:
        capture.add("function_start", 1, {"inputs": str(len(reads)), "name": step.kernel})
        ops = () if step.is_transfer else step_device_ops(step, specs, chip, Settings())
        results = {id(spec) for _, spec in writes}
        for op in ops:
            _operation(capture, op, chip, reads, results)
        if not any(id(t) in results for op in ops for t in op.outputs):
            for _, spec in writes:
                _buffer(capture, "buffer_allocate", spec, chip, 2)
        for key, spec in writes:
            capture.tensor(key, spec, 1)
        capture.add("function_end", 1, {"name": step.kernel})


def _operation(capture: _Capture, op: DeviceOp, chip: DeviceSpec, reads: Sequence[Any], results: set[int]) -> None:
    name, held = op_code(op), held_by(op, chip)
    capture.add("function_start", 2, {"inputs": str(len(op.inputs)), "name": name})
    for key, spec in reads:
        capture.tensor(key, spec, 2)
    capture.add("circular_buffer_deallocate_all", 2, {"device_id": 0})
    for spec in op.outputs:
        if id(spec) in results:
            _buffer(capture, "buffer_allocate", spec, chip, 3)
    if held.circular:
        cores = f"{{[0-0 - {chip.grid[0] - 1}-{chip.grid[1] - 1}]}}"
        params = {"core_range_set": cores, "globally_allocated": "0", "size": held.circular}
        capture.add("circular_buffer_allocate", 2, params)
    if held.tensors:  # between the device operations of one call
        params = {
            "type": "L1",
            "size": held.tensors * chip.cores,
            "max_size_per_bank": held.tensors,
            "layout": "SHARDED",
        }
        capture.add("buffer_allocate", 3, params)
        capture.add("buffer_deallocate", 3, params)
    capture.add("function_end", 2, {"name": name})


def _buffer(capture: _Capture, node_type: str, spec: TensorSpec, chip: DeviceSpec, level: int) -> None:
    if spec.memory.buffer == "host":
        return
    params = {
        "type": spec.memory.buffer.upper(), "size": spec.nbytes, "page_size": spec.page_bytes,
        "layout": spec.memory.sharding.upper(), "max_size_per_bank": bytes_per_bank(spec, chip),
    }  # fmt: skip
    capture.add(node_type, level, params)


def freed(spec: TensorSpec, chip: DeviceSpec) -> None:
    for capture in _active:
        capture.add("function_start", 1, {"inputs": "0", "name": "Tensor::deallocate"})
        _buffer(capture, "buffer_deallocate", spec, chip, 1)
        capture.add("function_end", 1, {"name": "Tensor::deallocate"})


# ---- what a graph says ---------------------------------------------------------------------------------------------


def extract_calltrace(trace: Sequence[Node]) -> list[str]:
    """Functions and device operations in the order they were called."""
    return [node["params"]["name"] for node in trace if node["node_type"] == "function_start"]


def extract_peak_L1_memory_usage(trace: Sequence[Node]) -> int:
    """As ttnn tallies it: all bytes of L1 buffers, and one core's circular buffers."""
    return _peaks(trace, "size").peak_total


def extract_resource_usage_per_core(
    trace: Sequence[Node], interleaved_storage_cores: int | None = None
) -> PeakMemoryUsagePerCore:
    return _peaks(trace, "max_size_per_bank")


def _peaks(trace: Sequence[Node], measure: str) -> PeakMemoryUsagePerCore:
    circular = buffers = most_circular = most_buffers = most = 0
    for node in trace:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "circular_buffer_deallocate_all":
            circular = 0
        elif kind == "circular_buffer_allocate":
            circular += int(params["size"])
        elif kind.startswith("buffer_") and params["type"] == "L1":
            buffers += int(params[measure]) * (1 if kind == "buffer_allocate" else -1)
        most_circular, most_buffers = max(most_circular, circular), max(most_buffers, buffers)
        most = max(most, circular + buffers)
    return PeakMemoryUsagePerCore(most_circular, most_buffers, most)


def extract_output_tensors(trace: Sequence[Node]) -> set[int]:
    """The nodes of what the last call gave."""
    last: set[int] = set()
    ids: set[int] = set()
    for node in trace:
        if node["node_type"] == "function_start" and node["stacking_level"] == 1:
            last = set()
        if node["node_type"] == "tensor" and node["stacking_level"] == 1:
            last.add(node["counter"])
        ids = last or ids
    return ids


def extract_output_info(trace: Sequence[Node]) -> list[TensorInfo]:
    outputs = extract_output_tensors(trace)
    infos = []
    for node in trace:
        if node["counter"] in outputs:
            params = node["params"]
            shape = tuple(int(n) for n in params["shape"].strip("Shape([])").split(",") if n.strip())
            sizes = [n["params"]["size"] for n in trace[: node["counter"]] if n["node_type"] == "buffer_allocate"]
            place = "L1" if params["memory_config"].startswith("l1") else "DRAM"
            infos.append(TensorInfo(shape, int(sizes[-1]) if sizes else 0, place))
    return infos


def count_intermediate_and_output_tensors(trace: Sequence[Node]) -> tuple[int, int]:
    ids = {n["params"]["tensor_id"] for n in trace if n["node_type"] == "tensor" and n["stacking_level"] == 1}
    outputs = len(extract_output_tensors(trace))
    return max(0, len(ids) - outputs), outputs


_TITLES = {
    "capture_start": "Capture Start", "capture_end": "Capture End", "function_start": "Function Start: {name}",
    "function_end": "Function End:   {name}", "tensor": "Add Tensor: {tensor_id}",
    "buffer_allocate": "Allocate Device Buffer", "buffer_deallocate": "Deallocate Device Buffer",
    "circular_buffer_allocate": "Allocate Circular Buffer",
    "circular_buffer_deallocate_all": "Deallocate All Program-Scope L1",
}  # fmt: skip


def pretty_format(captured_graph: Sequence[Node]) -> str:
    lines = []
    for node in captured_graph:
        indent = "    " * max(0, node["stacking_level"] - 1)
        lines.append(indent + _TITLES[node["node_type"]].format(**(node["params"] or {})))
    return "\n".join(lines)


def pretty_print(captured_graph: Sequence[Node]) -> None:
    print(pretty_format(captured_graph))
