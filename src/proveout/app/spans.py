"""From a reader's logits to an answer: whole words, how sure the model is, and an honest "I don't know"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from proveout.app.evidence import EVIDENCE, MONTHS, NUMBERS, evidence, sentence_around, words_of

LONGEST_ANSWER = 30
"""Tokens."""
MOST_CANDIDATES, MOST_SPANS = 40, 400
"""Different answers that are weighed against each other, out of the reader's best spans."""


@dataclass(frozen=True)
class Calibration:
    """What turns logits into a confidence that can be believed, found on questions that were not trained on."""

    temperature: float = 1.0
    threshold: float = 0.5
    """Confidence from which an answer is given."""
    none: float = 0.0
    """Added to the logit of no answer."""
    evidence: Mapping[str, float] = field(default_factory=dict)
    """What each feature of `EVIDENCE` adds to a span's logit; those that are not named add nothing."""


@dataclass(frozen=True)
class Answer:
    """`span` is the answer's place in the passage, None for "I don't know"; `guess` is the best span there is, and
    `confidence` the chance that the answer is there; of `says_none`, that there is none, which is not calibrated."""

    span: tuple[int, int] | None
    confidence: float
    guess: tuple[int, int] | None
    says_none: bool = False
    """Whether no answer is likelier than the best one."""


@dataclass(frozen=True)
class Read:
    """What a reader made of a question: a logit for every token to begin and to end the answer, and where the tokens
    stand in the passage."""

    passage: str
    question: str
    start: torch.Tensor
    end: torch.Tensor
    offsets: Sequence[Sequence[int]]
    in_passage: Sequence[bool]

    @property
    def none(self) -> float:
        """The logit of no answer, which the first token, `[CLS]`, stands for as in SQuAD 2."""
        return float(self.start[0] + self.end[0])

    def candidates(self) -> dict[tuple[int, int], float]:
        """The best spans of whole words within a sentence, completed as a person would mark them, with their logits."""
        where = list(zip(self.in_passage, self.offsets))
        starts = [ok and begins_word(self.passage, a) and a < b for ok, (a, b) in where]
        ends = [ok and ends_word(self.passage, b) and a < b for ok, (a, b) in where]
        allowed = torch.ones(len(where), len(where), dtype=torch.bool).triu().tril(LONGEST_ANSWER - 1)
        allowed &= torch.tensor(starts)[:, None] & torch.tensor(ends)[None, :]
        logits, places = (self.start.float()[:, None] + self.end.float()[None, :])[allowed], allowed.nonzero()
        found: dict[tuple[int, int], float] = {}
        for index in logits.argsort(descending=True, stable=True)[:MOST_SPANS].tolist():
            first, last = (self.offsets[token] for token in places[index].tolist())
            span = completed(self.passage, int(first[0]), int(last[1]))
            if last[1] <= sentence_around(self.passage, first[0])[1] and words_of(self.passage[slice(*span)]):
                found.setdefault(span, float(logits[index]))
            if len(found) == MOST_CANDIDATES:
                break
        return found


def best_answer(read: Read, calibration: Calibration | None = None) -> Answer:
    """The likeliest span against no answer. Spans that overlap mean the same place: their chances count together."""
    calibration = calibration or Calibration()
    candidates = read.candidates()
    if not candidates:
        return Answer(None, 1.0, None, True)
    weights = torch.tensor([calibration.evidence.get(name, 0.0) for name in EVIDENCE])
    features = torch.tensor([evidence(read.passage, read.question, span) for span in candidates])
    logits = torch.tensor(list(candidates.values())) / calibration.temperature + features @ weights
    none = torch.tensor([read.none / calibration.temperature + calibration.none])
    *chances, none_chance = torch.cat([logits, none]).softmax(0).tolist()
    guess = max(zip(candidates, chances), key=lambda one: one[1])[0]
    confidence = sum(p for (a, b), p in zip(candidates, chances) if a < guess[1] and b > guess[0])
    if none_chance >= confidence:
        return Answer(None, none_chance, guess, True)
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
PARTICLE = re.compile(r"(?: (?:van|von|de|der|den|du|da|di|la|le|bin|al))+ [A-Z][\w]*")
"""The middle of a name: Guido van Rossum."""
PREPOSITIONS = ("in", "at", "on", "by", "into", "from", "to", "near", "after", "called", "named")


def completed(passage: str, start: int, end: int) -> tuple[int, int]:
    """A span as a person would mark it: whole names, numbers with their magnitude, dates with day and month; without
    the words that lead up to a name, and without the next item of a list."""
    start, end = _without_lead(passage, start, end)
    end = _without_next(passage, start, end)
    if passage[:end].rsplit(" ", 1)[-1][:1].isupper() and (rest := PARTICLE.match(passage, end)):
        end = rest.end()
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
    number = last[:1].isdigit() or last.lower() in (*NUMBERS, "a", "several")
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
