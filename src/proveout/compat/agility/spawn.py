"""The time that each input may take."""

from __future__ import annotations

import os

from proveout.cli.benchit import TIMEOUT_S, TIMEOUT_VARIABLE

DEFAULT_TIMEOUT_SECONDS = float(os.environ.get(TIMEOUT_VARIABLE) or TIMEOUT_S)

__all__ = ["DEFAULT_TIMEOUT_SECONDS"]
