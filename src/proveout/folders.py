"""Where Proveout keeps things on disk, and how their files are called."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

NAME_BYTES = 150
"""Of a file's name; systems take 255, and some of ours have words of their own behind a model's."""


def default_folder() -> Path:
    """Records and compiled Programs, unless the user says otherwise: `$PROVEOUT_CACHE`, or a folder below the home."""
    return Path(os.environ.get("PROVEOUT_CACHE") or "~/.cache/proveout").expanduser()


def file_name(text: str, otherwise: str = "model") -> str:
    """A name of the user's, such as a model's, that is fit for a file or folder: also a long one's end counts."""
    name = re.sub(r"[^\w.@-]+", "-", text).strip("-.") or otherwise
    data = name.encode()
    if len(data) <= NAME_BYTES:
        return name
    return f"{data[: NAME_BYTES - 9].decode(errors='ignore')}-{hashlib.sha256(data).hexdigest()[:8]}"


def write_whole(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.write_text(text)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
