"""Markdown's own parts: cells that show text as it is, and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|`*\[\]~])|(?<!\w)_|_(?!\w)", lambda match: "\\" + match.group(), line)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """A table whose numeric columns stand to the right."""
    rule = ["---:" if right else ":---" for right in numeric]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))
