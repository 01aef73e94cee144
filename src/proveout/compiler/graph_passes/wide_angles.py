"""Marks sines and cosines of what is counted: steps of diffusion, positions of words.

Models compute these angles in float32 whatever their weights are in; an angle of hundreds, rounded to bfloat16, is off
by whole radians.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from proveout.compiler.graph_passes.wide_attention import PRODUCTS, is_float
from proveout.compiler.ranges import VIEWS

aten = torch.ops.aten
ANGLES = frozenset({aten.sin.default, aten.cos.default})
BETWEEN = (
    VIEWS
    | PRODUCTS
    | {
        aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.neg.default,
        aten.exp.default, aten.cat.default, aten.slice.Tensor, aten.select.int, aten._to_copy.default,
    }
)  # fmt: skip
"""What may lie between integers and the angle that is made of them and of frequencies."""


def wide_angles(gm: GraphModule) -> GraphModule:
    """`meta["wide"]`: lowered in float32 under every precision."""
    for node in gm.graph.nodes:
        if node.target in ANGLES:
            for part in _counted(node):
                part.meta["wide"] = True
    return gm


def _counted(angle: Node) -> set[Node]:
    """The function and all that leads from integers to it; nothing where anything else was computed on the way."""
    way, rest, from_integers = {angle}, [angle], False
    while rest:
        for operand in rest.pop().all_input_nodes:
            if not is_float(operand):
                from_integers = True
            elif operand.op == "call_function" and operand not in way:
                if operand.target not in BETWEEN:
                    return set()
                way.add(operand)
                rest.append(operand)
    return way if from_integers else set()
