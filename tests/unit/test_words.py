"""Counts, sizes and other numbers as a reader expects them."""

from __future__ import annotations

import pytest

from proveout.words import counted, rounded


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


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (0.19437, 3, "0.194"),
        (999.4, 3, "999"),
        (999.7, 3, "1,000"),
        (1921.4, 3, "1,921"),
        (-12345.6, 3, "-12,346"),
        (9999.4, 4, "9,999"),
        (12345.6, 4, "12,346"),
        (0, 3, "0"),
    ],
)
def test_a_large_number_is_no_power_of_ten(value: float, digits: int, said: str) -> None:
    assert rounded(value, digits) == said
