"""Which convertible nodes had better stay on the host, because their neighbours must and transfers cost more.

Transfers are modelled; the host is not, so its time is a stated guess that leans towards the device. The ends of the
graph do not count: whoever chose a device wants its work there, and only host ops in the middle pull a node over.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch.fx import GraphModule, Node

from proveout.chip.time import transfer_time
from proveout.compiler.lower import Lowered
from proveout.compiler.mincut import PriceGraph
from proveout.kernels.table import dtype_name, kernels, specs_of
from proveout.reasons import Kind, Reason
from proveout.types import DRAM, DTYPE_BYTES, DeviceSpec, TensorSpec

HOST_NS, HOST_NS_PER_BYTE = 10_000, 0.05
"""What a light op may cost on the host: a call, and 20 GB/s over what it reads and writes."""

CHEAPER = Kind(
    "cheaper-on-host",
    "cheaper on the host: its neighbours are there, and it saves their transfers",
    "none of its own: it converts when the host ops around it do",
)


def better_on_host(gm: GraphModule, weights: frozenset[int], lowered: Lowered, chip: DeviceSpec) -> dict[str, Reason]:
    """Names of nodes that were converted and should not be, each with the reason."""
    host = {s.node for s in lowered.statuses if s.state == "host"}
    if not host:
        return {}
    heavy, once = _heavy(lowered), _from_weights(gm, weights)
    nodes = {n.name: n for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)}
    cut = PriceGraph()
    for name, node in nodes.items():
        if name in host:
            cut.item(name, cost_a=float("inf"))
        elif name in heavy:
            cut.item(name, cost_b=float("inf"))
        else:
            cut.item(name, cost_b=_host_ns(node))
    for name, node in nodes.items():
        for value, readers in _values(node) if node not in once else ():
            spec = TensorSpec(tuple(value.shape), _device_dtype(value.dtype), "tile", DRAM)
            inside = [r.name for r in readers if r.name in nodes]
            cut.value(
                name,
                inside,
                transfer_time(spec, chip, to_device=False).ns,
                transfer_time(spec, chip, to_device=True).ns,
            )
    on_device = cut.solve()
    return {name: CHEAPER() for name in nodes if name not in on_device and name not in host}


def _from_weights(gm: GraphModule, weights: frozenset[int]) -> set[Node]:
    """Nodes that depend on weights alone: they run once, so their transfers cost nothing."""
    known: set[Node] = set()
    inputs = iter(range(len(gm.graph.nodes)))
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            stable = next(inputs) in weights
        else:
            stable = node.op == "get_attr" or (bool(node.all_input_nodes) and known.issuperset(node.all_input_nodes))
        if stable:
            known.add(node)
    return known


def _heavy(lowered: Lowered) -> set[str]:
    """Nodes that multiply matrices: those never leave."""
    heavy = set()
    for step in lowered.program.body:
        if not step.on_host and step.outputs:
            outputs = [lowered.program.specs[n] for n in step.outputs]
            if kernels()[step.kernel].work(specs_of(step, lowered.program.specs), outputs).phased:
                heavy.add(step.origin.node)
    return heavy


def _values(node: Node) -> Iterator[tuple[torch.Tensor, list[Node]]]:
    """A node's tensors, each with the nodes that read it."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        yield value, list(node.users)
    for user in node.users:
        if user.target is operator.getitem and isinstance(user.meta.get("val"), torch.Tensor):
            yield user.meta["val"], list(user.users)


def _host_ns(node: Node) -> float:
    tensors = [v for v, _ in _values(node)] + [n.meta.get("val") for n in node.all_input_nodes]
    return HOST_NS + HOST_NS_PER_BYTE * sum(
        t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor)
    )


def _device_dtype(dtype: torch.dtype) -> str:
    name = dtype_name(dtype)
    return name if name in DTYPE_BYTES else "float32" if dtype.is_floating_point else "int32"
