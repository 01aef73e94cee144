"""How often sums meet tt-metal#38306, counted while somebody looks."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass
class Errata:
    """Sums that tt-metal#38306 spoilt while this was active; see `counting`."""

    hits: int = 0


_watching = threading.local()


class counting:
    """`with counting() as errata:` counts the sums of this thread that tt-metal#38306 spoils; whoever counts around
    it counts them too."""

    def __enter__(self) -> Errata:
        self.before = getattr(_watching, "errata", None)
        self.errata = Errata()
        _watching.errata = self.errata
        return self.errata

    def __exit__(self, *exc: object) -> None:
        _watching.errata = self.before
        note(self.errata.hits)


def watched() -> bool:
    return getattr(_watching, "errata", None) is not None


def note(hits: int) -> None:
    """So many sums were spoilt just now."""
    if hits and watched():
        _watching.errata.hits += hits
