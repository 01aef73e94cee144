"""Passes over the ATen graph: `GraphModule -> GraphModule`, one a file, run in this order.

A node that a pass puts in another's place carries that one's name in `meta["replaces"]`, so that coverage can count it.
"""

from proveout.compiler.graph_passes.fold_constants import fold_constants
from proveout.compiler.graph_passes.simplify_index import simplify_index

GRAPH_PASSES = (fold_constants, simplify_index)
