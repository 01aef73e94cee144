"""Where Proveout keeps things on disk."""

from __future__ import annotations

import os
from pathlib import Path


def default_folder() -> Path:
    """Records and compiled Programs, unless the user says otherwise: `$PROVEOUT_CACHE`, or a folder below the home."""
    return Path(os.environ.get("PROVEOUT_CACHE") or "~/.cache/proveout").expanduser()
