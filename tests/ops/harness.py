"""Runs one ATen call through the compiler and a device, without Dynamo: the smallest way to test a row."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from proveout.compiler import CompiledGraph, compile_graph
from proveout.compiler.profile import Profile
from proveout.devices.execute import aten_op
from proveout.devices.registry import find, open_device
from proveout.ops.table import Sample
from proveout.types import Settings


def trace(aten: str, sample: Sample) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """A graph of one call whose inputs are the sample's tensors."""
    leaves, tree = tree_flatten((sample.args, sample.kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def call(*given: torch.Tensor) -> Any:
        rest = iter(given)
        filled = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(filled, tree)
        out = aten_op(aten)(*args, **kwargs)
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    return make_fx(call, tracing_mode="fake")(*tensors), tensors


def run(aten: str, sample: Sample, device: str, settings: Settings) -> tuple[list[Any], CompiledGraph]:
    """The sample's outputs from a device, and what was compiled. Outputs nobody would read are dropped beforehand."""
    gm, tensors = trace(aten, sample)
    _keep_first_of_norms(gm)
    info = find(device)
    profile = Profile(info.target, settings.precision)
    compiled = compile_graph(gm, weights=frozenset(), profile=profile, settings=settings, chip=info.spec, name="op")
    loaded = open_device(device).load(compiled.program, settings)
    return loaded.run([tensors[i] for i in compiled.input_positions]).outputs, compiled


def _keep_first_of_norms(gm: torch.fx.GraphModule) -> None:
    """Ops with auxiliary outputs (indices, statistics) are called in models for the first alone."""
    output = next(n for n in gm.graph.nodes if n.op == "output")
    ops = [n for n in gm.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]
    name = str(ops[-1].target) if ops else ""
    training = any(part in name for part in ("backward", "functional"))
    if not training and any(part in name for part in ("_norm", "with_indices", "adaptive_max", "dot_product", "_bag")):
        output.args = ((output.args[0][0],),)
        gm.graph.eliminate_dead_code()
        gm.recompile()
