"""Gives a node's outputs the dtypes that eager gives them, where PyTorch traces others."""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

BATCH_NORM = torch.ops.aten._native_batch_norm_legit_functional.default
RUNNING = {3: 3, 4: 4}
"""Of its outputs, the new running statistics; in eager they keep the dtype of these arguments, traced is float32."""


def eager_dtypes(gm: GraphModule) -> GraphModule:
    for node in gm.graph.nodes:
        if node.target is BATCH_NORM:
            outputs = list(node.meta["val"])
            for output, argument in RUNNING.items():
                running = node.args[argument]
                assert isinstance(running, Node)
                outputs[output] = outputs[output].to(running.meta["val"].dtype)
            node.meta["val"] = tuple(outputs)
            for user in node.users:
                if user.target is operator.getitem:
                    user.meta["val"] = outputs[user.args[1]]  # type: ignore[call-overload, index]
    return gm
