"""Passes over the Program: `Program -> Program`, one a file, run in this order."""

from proveout.compiler.program_passes.cancel import cancel
from proveout.compiler.program_passes.deallocate import deallocate
from proveout.compiler.program_passes.hoist import hoist
from proveout.compiler.program_passes.layouts import layouts
from proveout.compiler.program_passes.pack_weights import pack_weights
from proveout.compiler.program_passes.place import place
from proveout.compiler.program_passes.prune import prune
from proveout.compiler.program_passes.sink import sink

__all__ = ["cancel", "deallocate", "hoist", "layouts", "pack_weights", "place", "prune", "sink"]
