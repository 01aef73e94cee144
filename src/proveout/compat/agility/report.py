"""A report's CSV file, read back; and the name that today's has."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

WORDS = {"True": True, "False": False}


def get_dict(report_csv: str | Path, columns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Some columns of every model, by its name."""
    with open(report_csv, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {row["model_name"]: {name: WORDS.get(row[name], row[name]) for name in columns} for row in rows}


def get_report_name() -> str:
    return f"{date.today().isoformat()}.csv"


__all__ = ["get_dict", "get_report_name"]
