"""What speaks for a span of a passage as the answer to a question, beside the reader's logits.

One table of features. Their weights were fitted with the reader's temperature (`training/answers.py`), so that a
confidence can be believed; weights of which nothing is known have none, and only the logits count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

WORD = re.compile(r"[^\W_]+(?:['’.,:-][^\W_]+)*")
SENTENCE_END = re.compile(r"[.!?]\s+(?=[A-Z\"'(])")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STEM = 6
"""Letters of a word that count, once its ending is off: "employ" is in "employees"."""
ENDINGS = ("ing", "ies", "ed", "es", "s", "e")
SMALL_WORDS = _set(
    "a an the of in on at to for from by with and or is are was were be been do does did has have had what who whom "
    "when where which how why many much long tall old it its his her their our your my he she they we you i that this "
    "there as most first can could should will would get"
)
PRONOUNS = _set("he she it they we you i him them")
LOOSE_ENDS = _set("a an the of in on at to for from by with and or is are was were that which as it")
"""Words that an answer does not end with."""
ARTICLES = frozenset(("a", "an", "the"))
VERBS = re.compile(r"\b(is|are|was|were|has|have)\b")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
TIMES = frozenset(MONTHS) | _set(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays "
    "sundays noon midnight morning evening afternoon night today tomorrow yesterday spring summer autumn winter "
    "weekdays weekends holidays week month year century day days"
)
UNITS = _set(
    "metres meters kilometres miles euros pounds dollars hours minutes seconds weeks months years tonnes kilograms "
    "grams degrees percent people times"
)
NUMBERS = _set(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred half"
)
PLACE_WORDS = _set("in at on near from to under into through along off between behind")
TIME_WORDS = _set("in on at until since by from every before after")
KINDS = (
    ("when", re.compile(r"\b(when|(what|which) (year|day|time|month))\b")),
    ("number", re.compile(r"\bhow (many|much|long|tall|high|deep|old|far|fast|big|large|wide|heavy|hot|often)\b|"
                          r"\bat what temperature\b")),
    ("who", re.compile(r"\b(who|whom|whose)\b")),
    ("where", re.compile(r"\bwhere\b")),
)  # fmt: skip
"""What a question asks for, by the first pattern that is in it; any other asks for a thing."""


@dataclass(frozen=True)
class Candidate:
    """A span of a passage that could answer a question."""

    passage: str
    question: str
    span: tuple[int, int]

    @cached_property
    def text(self) -> str:
        return self.passage[slice(*self.span)]

    @cached_property
    def words(self) -> list[str]:
        return words_of(self.text)

    @cached_property
    def kind(self) -> str:
        return next((kind for kind, pattern in KINDS if pattern.search(self.question.lower())), "thing")

    @cached_property
    def sentence(self) -> tuple[int, int]:
        return sentence_around(self.passage, self.span[0])

    @cached_property
    def asked(self) -> frozenset[str]:
        return stems(self.question)

    @cached_property
    def around(self) -> frozenset[str]:
        """Stems of the sentence that the span stands in, without its own."""
        first, last = self.sentence
        return stems(self.passage[first : self.span[0]]) | stems(self.passage[self.span[1] : last])

    @cached_property
    def before(self) -> str:
        words = words_of(self.passage[self.sentence[0] : self.span[0]])
        return words[-1].lower() if words else ""


def words_of(text: str) -> list[str]:
    return WORD.findall(text)


def stems(text: str) -> frozenset[str]:
    return frozenset(_stem(word.lower()) for word in words_of(text) if word.lower() not in SMALL_WORDS)


def _stem(word: str) -> str:
    ending = next((e for e in ENDINGS if word.endswith(e) and len(word) - len(e) >= 3), "")
    return word.removesuffix(ending)[:STEM]


def sentence_around(passage: str, place: int) -> tuple[int, int]:
    """Where the sentence begins and ends that this place is in."""
    ends = [0, *(match.end() for match in SENTENCE_END.finditer(passage)), len(passage)]
    return max(end for end in ends if end <= place), min(end for end in ends if end > place)


def has_number(text: str) -> bool:
    return any(word[0].isdigit() or word.lower() in NUMBERS for word in words_of(text))


def _fits_kind(candidate: Candidate) -> float:
    """Whether the span is what the question asks for: 1 for yes, -1 for no, 0 where it could be."""
    number, lower = has_number(candidate.text), [word.lower() for word in candidate.words]
    if candidate.kind == "when":
        return 1.0 if number or any(word in TIMES for word in lower) else -1.0
    if candidate.kind == "number":
        return 1.0 if number else -1.0
    if number or all(word in TIMES | UNITS for word in lower):
        return -1.0
    if candidate.kind == "who":
        named = any(word[0].isupper() for word in candidate.words)
        return 1.0 if named else 0.0 if lower[0] in (*ARTICLES, "her", "his", "its", "their", "our") else -1.0
    return 0.0


def _says_it(candidate: Candidate) -> float:
    """The share of the question's own words that stand beside the span, in its sentence."""
    return len(candidate.asked & candidate.around) / max(1, len(candidate.asked))


def _says_all(candidate: Candidate) -> float:
    return float(candidate.asked <= candidate.around)


def _said_before(candidate: Candidate) -> float:
    """The share that only the sentence before it has, which it may refer to with a pronoun."""
    begin = candidate.sentence[0]
    if not begin:
        return 0.0
    before = stems(candidate.passage[slice(*sentence_around(candidate.passage, begin - 1))])
    return len(candidate.asked & (before - candidate.around)) / max(1, len(candidate.asked))


def _led_up(candidate: Candidate) -> float:
    """Whether a preposition of place or time stands before it, as the question wants."""
    wanted = {"where": PLACE_WORDS, "when": TIME_WORDS}.get(candidate.kind, frozenset())
    return float(candidate.before in wanted)


def _ragged(candidate: Candidate) -> float:
    """What an answer does not look like: a clause, a pronoun, an end in the middle of a phrase."""
    lower = [word.lower() for word in candidate.words]
    clipped = lower[-1] in LOOSE_ENDS or lower[0] in LOOSE_ENDS - ARTICLES
    empty = all(word in SMALL_WORDS for word in lower) or lower[0] in PRONOUNS
    return clipped + bool(VERBS.search(candidate.text)) + 2.0 * empty


def _cut(candidate: Candidate) -> float:
    """Whether the phrase goes on behind the span."""
    behind = re.match(r" ([^\W\d_]+)", candidate.passage[candidate.span[1] :])
    if behind is None or candidate.kind == "when" or has_number(candidate.text):
        return 0.0
    return float(behind[1] == "of" or behind[1].lower() not in SMALL_WORDS)


def _long(candidate: Candidate) -> float:
    return min(len(candidate.words), 10) / 5


EVIDENCE: Mapping[str, Callable[[Candidate], float]] = {
    "fits_kind": _fits_kind,
    "says_it": _says_it,
    "says_all": _says_all,
    "said_before": _said_before,
    "led_up": _led_up,
    "ragged": _ragged,
    "cut": _cut,
    "long": _long,
}


def evidence(passage: str, question: str, span: tuple[int, int]) -> list[float]:
    """Every feature of a span, in the table's order."""
    candidate = Candidate(passage, question, span)
    return [feature(candidate) for feature in EVIDENCE.values()]
