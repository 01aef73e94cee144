"""The version that `mlagility.__version__` tells."""

from __future__ import annotations

from proveout import __version__

__all__ = ["__version__"]
