"""The pages of a cache and who holds them: a page has one holder at most, and none is lost."""

from __future__ import annotations

from proveout.errors import UsageError


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
