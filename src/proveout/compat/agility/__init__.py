"""MLAgility's package as its users import it: `benchmark_script`, `benchmark_model` and the command line."""

from __future__ import annotations

from proveout import __version__
from proveout.compat.agility.cli import main as benchitcli
from proveout.compat.agility.model_api import benchmark_model
from proveout.compat.agility.script_api import benchmark_files, benchmark_script

__all__ = ["__version__", "benchitcli", "benchmark_files", "benchmark_model", "benchmark_script"]
