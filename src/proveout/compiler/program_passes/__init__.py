"""Passes over the Program: `Program -> Program`, one a file, run in the order that `pipeline` says.

A fusion is a file `fuse_*.py`, which says itself when it runs; putting it here is all that it takes.
"""

import functools
from importlib import import_module
from pkgutil import iter_modules

from proveout.compiler.program_passes.bank_products import bank_products
from proveout.compiler.program_passes.cancel import cancel
from proveout.compiler.program_passes.configure_products import configure_products
from proveout.compiler.program_passes.deallocate import deallocate
from proveout.compiler.program_passes.decide import decide
from proveout.compiler.program_passes.hoist import hoist
from proveout.compiler.program_passes.layouts import layouts
from proveout.compiler.program_passes.lift_matmul import lift_matmul
from proveout.compiler.program_passes.match import Fuse, Policy
from proveout.compiler.program_passes.pack_cache import pack_cache
from proveout.compiler.program_passes.pack_weights import pack_weights
from proveout.compiler.program_passes.place import keep_in_dram, place
from proveout.compiler.program_passes.prune import prune
from proveout.compiler.program_passes.settle_state import settle_state
from proveout.compiler.program_passes.shard_images import shard_images
from proveout.compiler.program_passes.shard_norms import shard_norms
from proveout.compiler.program_passes.shard_users import shard_users
from proveout.compiler.program_passes.sink import sink, sink_in_layout


@functools.cache
def fusions(stage: str) -> tuple[Fuse, ...]:
    """The fusions of one stage, in order: what the files `fuse_*.py` here list in `FUSIONS`."""
    names = [file.name for file in iter_modules(__path__) if file.name.startswith("fuse_")]
    files = [import_module(f"{__name__}.{name}") for name in names]
    listed = [row for file in files for row in file.FUSIONS if row.stage == stage]
    return tuple(row.run for row in sorted(listed, key=lambda row: row.order))


__all__ = [
    "Policy", "bank_products", "cancel", "configure_products",
    "deallocate", "decide", "fusions", "hoist", "keep_in_dram", "layouts", "lift_matmul", "pack_cache", "pack_weights",
    "place", "prune", "settle_state", "shard_images", "shard_norms", "shard_users", "sink", "sink_in_layout",
]  # fmt: skip
