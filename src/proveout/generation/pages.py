"""The pages of a cache and who holds them: a page has one holder at most, and none is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proveout.errors import UsageError


@dataclass(frozen=True)
class Paging:
    """A cache of `count` pages of `size` tokens. One page more takes what belongs to nobody: the table names it where a
    user has no page, so that one Program serves any table."""

    size: int
    count: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.size & (self.size - 1):
            raise UsageError(
                f"pages of {self.size} tokens: a page holds a power of two, and ttnn's own kernels take 32 or more."
            )
        if self.count < 1:
            raise UsageError(f"{self.count} pages: a cache has at least 1.")

    @property
    def nobodys(self) -> int:
        """The page that is handed out to nobody."""
        return self.count

    def rows(self, tables: Sequence[Sequence[int]], width: int) -> list[list[int]]:
        """The page table: each user's pages, then nobody's, `width` in all."""
        for table in tables:
            if len(table) > width or any(not 0 <= page < self.count for page in table):
                raise UsageError(
                    f"pages {list(table)}: a user has at most {width}, of those from 0 to {self.count - 1}."
                )
        return [[*table, *[self.nobodys] * (width - len(table))] for table in tables]


class Pages:
    """Hands out pages of `size` tokens."""

    def __init__(self, total: int, size: int) -> None:
        if total < 1 or size < 1:
            raise UsageError(f"{total} pages of {size} tokens: both must be at least 1.")
        self.total, self.size = total, size
        self._free = list(range(total - 1, -1, -1))
        self._held: dict[int, list[int]] = {}

    @property
    def free(self) -> int:
        return len(self._free)

    def needed(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def table(self, holder: int) -> tuple[int, ...]:
        """The page table of a holder: its tokens lie in these pages, in order."""
        return tuple(self._held.get(holder, ()))

    def reserve(self, holder: int, tokens: int) -> bool:
        """Let a holder have room for so many tokens in all; False, and nothing changes, where pages are short."""
        held = self._held.get(holder, [])
        more = self.needed(tokens) - len(held)
        if more > len(self._free):
            return False
        if more > 0:
            held = self._held.setdefault(holder, held)
            held += [self._free.pop() for _ in range(more)]
        return True

    def release(self, holder: int) -> None:
        """Give all of a holder's pages back."""
        self._free += reversed(self._held.pop(holder, []))


class SlotPages(Pages):
    """The pages that users of a Generator hold, by slot."""

    def taken(self, slots: Iterable[int], lengths: Sequence[int]) -> list[tuple[int, ...]]:
        """Pages for new prompts in these slots; what the slots had is free again."""
        slots = list(slots)
        for slot in slots:
            self.release(slot)
        return [self._room(slot, length) for slot, length in zip(slots, lengths)]

    def grown(self, lengths: Sequence[int]) -> list[tuple[int, ...]]:
        """Pages of all slots, with room for so many tokens in those that have a prompt."""
        return [self._room(slot, length) if slot in self._held else () for slot, length in enumerate(lengths)]

    def _room(self, slot: int, length: int) -> tuple[int, ...]:
        if not self.reserve(slot, length):
            raise UsageError(
                f"the cache is full: slot {slot} needs {self.needed(length)} pages of {self.size} tokens,"
                f" and {self.free} of {self.total} are free. Release a slot, or compile with more pages."
            )
        return self.table(slot)
