"""Where things are."""

from __future__ import annotations

import os

from proveout.capture.scripts import corpora_folder
from proveout.folders import default_folder

DEFAULT_CACHE_DIR = os.environ.get("MLAGILITY_CACHE_DIR") or str(default_folder())
MODELS_DIR = str(corpora_folder())

__all__ = ["DEFAULT_CACHE_DIR", "MODELS_DIR"]
