"""Folders of builds."""

from __future__ import annotations

import shutil
from pathlib import Path


def rmdir(folder: str | Path) -> bool:
    """Delete a cache; False where there is none."""
    if not Path(folder).is_dir():
        return False
    shutil.rmtree(folder)
    return True


def get_all(path: str | Path, exclude_path: bool = False, file_type: str = "state.yaml") -> list[str]:
    """The files below a folder whose name has `file_type`: the states of all builds."""
    paths = sorted(p for p in Path(path).rglob("*") if p.is_file() and file_type in p.name)
    return [p.name if exclude_path else str(p) for p in paths]


__all__ = ["get_all", "rmdir"]
