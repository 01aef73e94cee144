"""Passes over the ATen graph: `GraphModule -> GraphModule`, one a file, run in this order.

A node that a pass puts in another's place carries that one's name in `meta["replaces"]`, so that coverage can count it.
One that prepares weights carries `meta["prepares"]`: it runs on the host, in `setup`, and is no op of the model's.
"""

from proveout.compiler.graph_passes.cast_first import cast_first
from proveout.compiler.graph_passes.draw_in_order import draw_in_order
from proveout.compiler.graph_passes.eager_dtypes import eager_dtypes
from proveout.compiler.graph_passes.fold_batch_norm import fold_batch_norm
from proveout.compiler.graph_passes.fold_constants import fold_constants
from proveout.compiler.graph_passes.fold_empty import fold_empty
from proveout.compiler.graph_passes.share_repeated import share_repeated
from proveout.compiler.graph_passes.simplify_index import simplify_index
from proveout.compiler.graph_passes.strided_views import strided_views
from proveout.compiler.graph_passes.wide_angles import wide_angles
from proveout.compiler.graph_passes.wide_attention import wide_attention

GRAPH_PASSES = (
    eager_dtypes,
    draw_in_order,
    fold_constants,
    fold_empty,
    strided_views,
    simplify_index,
    cast_first,
    share_repeated,
    fold_batch_norm,
    wide_attention,
    wide_angles,
)
