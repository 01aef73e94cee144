"""Passes over the ATen graph: `GraphModule -> GraphModule`, one a file, run in this order.

A node that a pass puts in another's place carries that one's name in `meta["replaces"]`, so that coverage can count it.
One that prepares weights carries `meta["prepares"]`: it runs on the host, in `setup`, and is no op of the model's.
"""

from proveout.compiler.graph_passes.draw_in_order import draw_in_order
from proveout.compiler.graph_passes.fold_batch_norm import fold_batch_norm
from proveout.compiler.graph_passes.fold_constants import fold_constants
from proveout.compiler.graph_passes.share_repeated import share_repeated
from proveout.compiler.graph_passes.simplify_index import simplify_index

GRAPH_PASSES = (draw_in_order, fold_constants, simplify_index, share_repeated, fold_batch_norm)
