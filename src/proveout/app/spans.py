"""From a reader's logits to an answer: whole words, how sure the model is, and an honest "I don't know"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

LONGEST_ANSWER = 30
"""Tokens."""


@dataclass(frozen=True)
class Calibration:
    """What turns logits into a confidence that can be believed, found on questions that were not trained on."""

    temperature: float = 1.0
    threshold: float = 0.5
    """Confidence from which an answer is given."""


@dataclass(frozen=True)
class Answer:
    """`span` is the answer's place in the passage, None for "I don't know"; `guess` is the best span there is, and
    `confidence` the chance that the answer is there; of `says_none`, that there is none, which is not calibrated."""

    span: tuple[int, int] | None
    confidence: float
    guess: tuple[int, int] | None
    says_none: bool = False
    """Whether no answer is likelier than the best one."""


def best_answer(
    start: torch.Tensor,
    end: torch.Tensor,
    passage: str,
    offsets: Sequence[Sequence[int]],
    in_passage: Sequence[bool],
    calibration: Calibration | None = None,
) -> Answer:
    """The likeliest span of whole words against no answer, which the first token, `[CLS]`, stands for as in SQuAD 2.

    Spans that overlap mean the same place: their chances count together.
    """
    calibration = calibration or Calibration()
    starts = [ok and begins_word(passage, a) and a < b for ok, (a, b) in zip(in_passage, offsets)]
    ends = [ok and ends_word(passage, b) and a < b for ok, (a, b) in zip(in_passage, offsets)]
    length = len(offsets)
    allowed = torch.triu(torch.ones(length, length, dtype=torch.bool)).tril(LONGEST_ANSWER - 1)
    allowed &= torch.tensor(starts)[:, None] & torch.tensor(ends)[None, :]
    logits = (start.float()[:, None] + end.float()[None, :]) / calibration.temperature
    none = (start[0].float() + end[0].float()) / calibration.temperature
    chances = torch.cat([logits[allowed], none[None]]).softmax(0)
    places = allowed.nonzero()
    if not len(places):
        return Answer(None, 1.0, None, True)
    best = int(chances[:-1].argmax())
    first, last = places[best].tolist()
    near = (places[:, 0] <= last) & (places[:, 1] >= first)
    confidence = float(chances[:-1][near].sum())
    guess = completed(passage, int(offsets[first][0]), int(offsets[last][1]))
    if float(chances[-1]) >= confidence:
        return Answer(None, float(chances[-1]), guess, True)
    return Answer(guess if confidence >= calibration.threshold else None, confidence, guess)


INSIDE = ".,'’-:/"
"""Between two letters or figures these belong to the word: 1,083, Saint-Denis, o'clock, 9:30."""


def begins_word(text: str, place: int) -> bool:
    """Whether a word, and not a part of one, begins here."""
    if place <= 0 or place >= len(text):
        return place == 0
    before, here = text[place - 1], text[place]
    if before.isalnum() and (here.isalnum() or (here in INSIDE and text[place + 1 : place + 2].isalnum())):
        return False
    return not (before in INSIDE and here.isalnum() and place > 1 and text[place - 2].isalnum())


def ends_word(text: str, place: int) -> bool:
    """Whether a word ends before this place."""
    return place >= len(text) or begins_word(text, place)


MAGNITUDES = ("hundred", "thousand", "million", "billion", "trillion", "percent", "%", "per")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
PREPOSITIONS = ("in", "at", "on", "by", "into", "from", "to", "near", "after", "called", "named")


def completed(passage: str, start: int, end: int) -> tuple[int, int]:
    """A span as a person would mark it: whole names, numbers with their magnitude, dates with day and month; without
    the words that lead up to a name, and without the next item of a list."""
    start, end = _without_lead(passage, start, end)
    end = _without_next(passage, start, end)
    while (word := _after(passage, end)) and _continues(passage[start:end], word):
        end += 1 + len(word)
    while (word := _before(passage, start)) and _precedes(passage, start - 1 - len(word), word, passage[start:end]):
        start -= 1 + len(word)
    return start, end


def _without_lead(passage: str, start: int, end: int) -> tuple[int, int]:
    """ "meet at Khartoum" is Khartoum."""
    words = passage[start:end].split(" ")
    for position, word in enumerate(words[:-1]):
        rest = words[position + 1 :]
        if word.lower() in PREPOSITIONS and words[0][:1].islower() and rest[0][:1].isupper():
            return end - len(" ".join(rest)), end
    return start, end


def _without_next(passage: str, start: int, end: int) -> int:
    """ "500 grams of flour, 300 millilitres" is the first of them."""
    first, comma, rest = passage[start:end].partition(", ")
    return start + len(first) if comma and first[:1].isdigit() and rest[:1].isdigit() and " " in first else end


def _after(passage: str, end: int) -> str:
    """The word behind a span, where nothing but a space parts them."""
    return _letters(passage[end + 1 : end + 40]) if passage[end : end + 1] == " " else ""


def _letters(text: str) -> str:
    word = text.split(" ", 1)[0].split("\n", 1)[0]
    return word.rstrip(".,;:!?)\"'") if word[:1].isalnum() else ""


def _before(passage: str, start: int) -> str:
    if start < 2 or passage[start - 1] != " ":
        return ""
    word = passage[: start - 1].rsplit(" ", 1)[-1]
    return word if word.isalnum() else ""


def _continues(answer: str, word: str) -> bool:
    last = answer.rsplit(" ", 1)[-1]
    if last[:1].isupper() and word[:1].isupper() and last.lower() not in MONTHS:
        return True  # the rest of a name
    number = last[:1].isdigit() or last.lower() in NUMBERS
    if number and word.lower() in MAGNITUDES:
        return True
    return last.lower() in MONTHS and word.isdigit() and len(word) == 4


def _precedes(passage: str, place: int, word: str, answer: str) -> bool:
    first = answer.split(" ", 1)[0]
    opens = place == 0 or passage[:place].rstrip()[-1:] in ".!?"
    if first[:1].isupper() and first.lower() not in MONTHS:
        return word[:1].isupper() and word.lower() not in MONTHS and not opens
    if first.isdigit() and len(first) == 4 and word.lower() in MONTHS:
        return True
    return first.lower() in MONTHS and word.isdigit() and len(word) <= 2


NUMBERS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
    "hundred",
    "a",
    "several",
]
