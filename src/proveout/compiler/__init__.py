"""ATen graphs in, Programs out. Knows chips and kernels, never devices."""

from proveout.compiler.pipeline import CompiledGraph, compile_graph

__all__ = ["CompiledGraph", "compile_graph"]
