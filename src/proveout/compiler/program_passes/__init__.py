"""Passes over the Program: `Program -> Program`, one a file, run in this order."""

from proveout.compiler.program_passes.cancel import cancel
from proveout.compiler.program_passes.configure_products import configure_products
from proveout.compiler.program_passes.deallocate import deallocate
from proveout.compiler.program_passes.evict import evict
from proveout.compiler.program_passes.fuse_attention import fuse_attention
from proveout.compiler.program_passes.fuse_gelu import fuse_gelu
from proveout.compiler.program_passes.fuse_linear import fuse_activation, fuse_bias
from proveout.compiler.program_passes.fuse_norm import fuse_norm
from proveout.compiler.program_passes.fuse_qkv import fuse_heads, fuse_products
from proveout.compiler.program_passes.fuse_rotary import fuse_rotary
from proveout.compiler.program_passes.fuse_softmax import fuse_softmax
from proveout.compiler.program_passes.fuse_transpose import fuse_transpose
from proveout.compiler.program_passes.hoist import hoist
from proveout.compiler.program_passes.layouts import layouts
from proveout.compiler.program_passes.lift_matmul import lift_matmul
from proveout.compiler.program_passes.match import Policy
from proveout.compiler.program_passes.pack_weights import pack_weights
from proveout.compiler.program_passes.place import keep_in_dram, place
from proveout.compiler.program_passes.prune import prune
from proveout.compiler.program_passes.settle_state import settle_state
from proveout.compiler.program_passes.shard_norms import shard_norms
from proveout.compiler.program_passes.sink import sink
from proveout.compiler.program_passes.split import split
from proveout.compiler.program_passes.split_columns import Shares, split_columns
from proveout.compiler.program_passes.spread import OUTPUT, NotSpread, Rows, spread

FORMULAS = (fuse_gelu, fuse_norm, fuse_rotary, fuse_attention, fuse_softmax)
"""In order: what is written out as element-wise Steps, reductions and products becomes one kernel."""

PRODUCTS = (fuse_bias, fuse_heads, fuse_products, fuse_activation, fuse_transpose)
"""In order: products are joined before each has an activation of its own."""

__all__ = [
    "FORMULAS", "OUTPUT", "PRODUCTS", "NotSpread", "Policy", "Rows", "Shares", "cancel", "configure_products",
    "deallocate", "evict", "hoist", "keep_in_dram", "layouts", "lift_matmul", "pack_weights", "place", "prune",
    "settle_state", "shard_norms", "sink", "split", "split_columns", "spread",
]  # fmt: skip
