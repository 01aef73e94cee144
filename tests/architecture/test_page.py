"""The page of the house names every room, and no room that is gone."""

from __future__ import annotations

import re
from pathlib import Path

from measures import SOURCE

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
MADE = {"records/"}
"""What stands in a folder of the user's."""
ROOMS = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
IN_TEXT, IN_PICTURE = r"`([a-z_]+)`", r"\b([a-z_]+)\[\(?\1:|doors\(\[(.*?)\]\)"


def test_the_page_names_every_room() -> None:
    drawn = {word for one, doors in re.findall(IN_PICTURE, PAGE) for word in (one, *doors.split(", "))}
    assert ROOMS - drawn - set(re.findall(IN_TEXT, PAGE)) == set()


def test_every_path_on_the_page_is_there() -> None:
    """Folders and files, as `ops/` and `columns/table.py`; NAME stands for any."""
    paths = [path for path in re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", PAGE) if "NAME" not in path]
    assert len(paths) > 10
    known = (SOURCE, SOURCE.parents[1], SOURCE.parents[1] / "docs")
    assert [path for path in paths if path not in MADE and not any((folder / path).exists() for folder in known)] == []
