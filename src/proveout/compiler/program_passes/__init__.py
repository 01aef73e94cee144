"""Passes over the Program: `Program -> Program`, one a file, run in this order."""

from proveout.compiler.program_passes.cancel import cancel
from proveout.compiler.program_passes.deallocate import deallocate
from proveout.compiler.program_passes.evict import evict
from proveout.compiler.program_passes.hoist import hoist
from proveout.compiler.program_passes.place import place
from proveout.compiler.program_passes.prune import prune
from proveout.compiler.program_passes.sink import sink
from proveout.compiler.program_passes.split import split

__all__ = ["cancel", "deallocate", "evict", "hoist", "place", "prune", "sink", "split"]
