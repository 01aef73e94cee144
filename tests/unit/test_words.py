"""A count and its noun agree."""

from __future__ import annotations

import pytest

from proveout.words import counted


@pytest.mark.parametrize(
    ("count", "noun", "many", "said"),
    [
        (0, "script", "", "0 scripts"),
        (1, "script", "", "1 script"),
        (-1, "transfer", "", "-1 transfer"),
        (1234, "box", "boxes", "1,234 boxes"),
        (1, "box", "boxes", "1 box"),
    ],
)
def test_a_count_and_its_noun_agree(count: int, noun: str, many: str, said: str) -> None:
    assert counted(count, noun, many) == said
