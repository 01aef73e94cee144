"""Who is computed next: first come, first served, prefill and decode in turn, preemption by recomputing.

A waiting request is admitted when a slot and pages for its prompt are free, never before one that came earlier. After a
prefill, those that are running get a token before the next one is admitted. Where a page is missing for the next token,
the request that came last gives all of its pages back and waits at the head of the queue; when it is admitted again,
its prompt and the tokens that it has are computed anew, so that it goes on with the same tokens.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from proveout.errors import UsageError
from proveout.generation.pages import Pages

PREFILL_TOKENS = 2048
"""Of prompts that one prefill step takes; a longer prompt is a step of its own."""


@dataclass(frozen=True)
class Request:
    """One prompt, and how many tokens it is to get. `stop` ends it earlier."""

    number: int
    prompt: tuple[int, ...]
    max_tokens: int
    intended_ns: int = 0
    stop: frozenset[int] = frozenset()


@dataclass(eq=False)
class Sequence:
    """A request on its way. `cached` tokens of it are in the cache; the last generated one is not yet."""

    request: Request
    slot: int = -1
    pages: tuple[int, ...] = ()
    """Where its tokens lie in the cache, in order."""
    generated: list[int] = field(default_factory=list)
    cached: int = 0
    preemptions: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        return (*self.request.prompt, *self.generated)

    @property
    def length(self) -> int:
        return len(self.request.prompt) + len(self.generated)

    @property
    def ended(self) -> bool:
        return len(self.generated) >= self.request.max_tokens or (
            bool(self.generated) and self.generated[-1] in self.request.stop
        )


@dataclass(frozen=True)
class Batch:
    """What is computed next: whole prompts, or one more token of everything that runs."""

    kind: Literal["prefill", "decode"]
    sequences: tuple[Sequence, ...]


class Scheduler:
    """Decides; it computes nothing and knows no time."""

    def __init__(
        self,
        pages: int,
        page_size: int,
        slots: int,
        max_length: int | None = None,
        prefill_tokens: int = PREFILL_TOKENS,
    ) -> None:
        if slots < 1:
            raise UsageError(f"{slots} slots: at least one request must be able to run.")
        self.pages = Pages(pages, page_size)
        self.slots = slots
        self.max_length = max_length or pages * page_size
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        """In the order in which they came."""
        self.num_preemptions = 0
        self._free_slots = list(range(slots - 1, -1, -1))
        self._prefill_tokens = prefill_tokens
        self._just_filled = False

    def refusal(self, request: Request) -> str:
        """Why a request can never be served; empty where it can."""
        if not request.prompt or request.max_tokens < 1:
            return "a request needs a prompt and at least one token to generate"
        length = len(request.prompt) + request.max_tokens - 1  # the last token is never put into the cache
        if length > self.max_length or self.pages.needed(length) > self.pages.total:
            most = min(self.max_length, self.pages.total * self.pages.size)
            return f"{len(request.prompt)} tokens and {request.max_tokens} new ones do not fit: the cache holds {most}"
        return ""

    def submit(self, request: Request) -> Sequence:
        """Put a request at the end of the queue."""
        if why := self.refusal(request):
            raise UsageError(f"{why}.")
        sequence = Sequence(request)
        self.waiting.append(sequence)
        return sequence

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def next(self) -> Batch | None:
        """The next step, its pages reserved; None where there is nothing to do."""
        step = self._next()
        for sequence in step.sequences if step else ():
            sequence.pages = self.pages.table(sequence.request.number)
        return step

    def _next(self) -> Batch | None:
        if not (self._just_filled and self.running) and (admitted := self._admitted()):
            self._just_filled = True
            return Batch("prefill", tuple(admitted))
        self._just_filled = False
        self._make_room()
        if self.running:
            return Batch("decode", tuple(self.running))
        admitted = self._admitted()
        return Batch("prefill", tuple(admitted)) if admitted else None

    def done(self, batch: Batch, tokens: list[int]) -> list[Sequence]:
        """A step's tokens, one a sequence; gives those that have ended, whose pages are free again."""
        ended = []
        for sequence, token in zip(batch.sequences, tokens, strict=True):
            sequence.cached = sequence.length
            sequence.generated.append(token)
            if sequence.ended:
                self.running.remove(sequence)
                self._release(sequence)
                ended.append(sequence)
        return ended

    def _admitted(self) -> list[Sequence]:
        """From the head of the queue, as long as slots, pages and the step's tokens last."""
        admitted: list[Sequence] = []
        tokens = 0
        while self.waiting and self._free_slots:
            head = self.waiting[0]
            if admitted and tokens + head.length > self._prefill_tokens:
                break
            if not self.pages.reserve(head.request.number, head.length):
                break
            self.waiting.popleft()
            head.slot = self._free_slots.pop()
            tokens += head.length
            admitted.append(head)
        self.running += admitted
        return admitted

    def _make_room(self) -> None:
        """A place in the cache for each running sequence's last token; the latest give way to the earliest."""
        index = 0
        while index < len(self.running):
            sequence = self.running[index]
            while not self.pages.reserve(sequence.request.number, sequence.length):
                last = self.running.pop()
                self._release(last)
                last.cached, last.preemptions = 0, last.preemptions + 1
                self.num_preemptions += 1
                self.waiting.appendleft(last)
                if last is sequence:
                    return
            index += 1

    def _release(self, sequence: Sequence) -> None:
        self.pages.release(sequence.request.number)
        self._free_slots.append(sequence.slot)
        sequence.slot, sequence.pages = -1, ()
