"""One change after another, kept where the modelled time falls and the PCC stays within the budget.

Changes that no number depends on come first (memory, sharding), then fidelity from the lowest up, then the formats of
weights: all in bfloat8_b, backing off part by part where that costs too much, then the parts that bear it in bfloat4_b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from proveout.types import Fidelity, Settings, Weights

LEAST_GAIN = 0.002
"""Share of the time now below which a change is not worth its risk."""
FIDELITIES: tuple[Fidelity, ...] = ("LoFi", "HiFi2", "HiFi3")
MOST_GROUPS = 8
"""Parts of the model that formats are tried on one by one; each try is a compilation."""
Verdict = Literal["kept", "gain too small", "too far off", "does not compile", "out of time", "others were quicker"]


class Costs(Protocol):
    """What the search can ask about a choice of settings."""

    def ns(self, settings: Settings) -> int | None:
        """Modelled time of one call; None where the model does not compile or fit that way."""

    def pcc(self, settings: Settings) -> float:
        """The lowest PCC over the outputs, on the inputs that the search may look at."""

    def weights(self) -> Mapping[str, int]:
        """Modules whose weights products or convolutions read, and how many numbers those are."""

    def in_time(self) -> bool:
        """Whether there is time for another change; what was kept so far stays."""


@dataclass(frozen=True)
class Trial:
    """One thing that was tried."""

    change: str
    verdict: Verdict
    ns: int | None
    """With this change, on top of those kept before it."""
    saves_ns: int
    pcc: float | None
    """None where it was not worth asking."""
    settings: Settings


@dataclass(frozen=True)
class Tuned:
    """The settings found and the way there."""

    start: Settings
    start_ns: int
    start_pcc: float
    settings: Settings
    ns: int
    pcc: float
    trials: tuple[Trial, ...]

    @property
    def kept(self) -> tuple[Trial, ...]:
        return tuple(t for t in self.trials if t.verdict == "kept")

    def without_last(self) -> Tuned:
        """As if the last change that was kept had been too far off."""
        *before, last = self.kept
        trials = tuple(replace(t, verdict="too far off") if t is last else t for t in self.trials)
        if not before:
            return replace(self, settings=self.start, ns=self.start_ns, pcc=self.start_pcc, trials=trials)
        previous = before[-1]
        assert previous.ns is not None
        assert previous.pcc is not None
        return replace(self, settings=previous.settings, ns=previous.ns, pcc=previous.pcc, trials=trials)

    @property
    def speedup(self) -> float:
        return self.start_ns / self.ns if self.ns else 1.0


def search(start: Settings, costs: Costs, least: float) -> Tuned:
    """The quickest settings that single changes lead to, with no PCC below `least`."""
    ns = costs.ns(start)
    if ns is None:
        raise ValueError("the model does not compile under the settings that the search starts from")
    walk = _Walk(costs, least, start, ns, costs.pcc(start))
    first = walk.ns, walk.pcc
    in_l1, configured = "results in L1 where they fit", "program configs that add biases inside their products"
    if walk.attempt(in_l1, memory="auto") == "kept":
        walk.attempt(configured, products="configured")
    else:  # in L1 a bias without a config costs an operation: the two may pay only together
        walk.attempt(f"{in_l1}, and {configured}", memory="auto", products="configured")
    walk.attempt("results in shards over all cores", sharding="auto")
    for fidelity in FIDELITIES:
        if walk.attempt(f"math fidelity {fidelity}", math_fidelity=fidelity) != "too far off":
            break
    packed = walk.attempt("weights of products in bfloat8_b", weights="bfloat8_b")
    if packed == "too far off":
        for pattern in _groups(costs.weights()):
            walk.attempt(f"weights of {pattern} in bfloat8_b", overrides=_with(walk.settings, pattern, "bfloat8_b"))
    # Where whole bytes save too little, half as many save less still.
    for pattern in _groups(costs.weights()) if packed not in ("gain too small", "out of time") else ():
        walk.attempt(f"weights of {pattern} in bfloat4_b", overrides=_with(walk.settings, pattern, "bfloat4_b"))
    return Tuned(start, *first, walk.settings, walk.ns, walk.pcc, tuple(walk.trials))


class _Walk:
    """Where the search stands."""

    def __init__(self, costs: Costs, least: float, settings: Settings, ns: int, pcc: float) -> None:
        self.costs, self.least = costs, least
        self.settings, self.ns, self.pcc = settings, ns, pcc
        self.trials: list[Trial] = []

    def attempt(self, change: str, **changed: object) -> Verdict:
        chosen = replace(self.settings, **changed)  # type: ignore[arg-type]
        if not self.costs.in_time():
            self.trials.append(Trial(change, "out of time", None, 0, None, chosen))
            return "out of time"
        ns = self.costs.ns(chosen)
        pcc: float | None = None
        verdict: Verdict
        if ns is None:
            verdict = "does not compile"
        elif self.ns - ns < LEAST_GAIN * self.ns:
            verdict = "gain too small"
        else:
            pcc = self.costs.pcc(chosen)
            verdict = "kept" if pcc >= self.least else "too far off"
        self.trials.append(Trial(change, verdict, ns, self.ns - ns if ns is not None else 0, pcc, chosen))
        if verdict == "kept" and ns is not None and pcc is not None:
            self.settings, self.ns, self.pcc = chosen, ns, pcc
        return verdict


def _groups(weights: Mapping[str, int]) -> Sequence[str]:
    """Modules that are alike but for their number, as patterns, the largest first. Where there are many, those of one
    part of the model go together."""
    depth = max((module.count(".") + 1 for module in weights), default=0)
    while True:
        total: dict[str, int] = {}
        for module, size in weights.items():
            parts = module.split(".")[:depth]
            pattern = ".".join("*" if len(parts) > 1 and part.isdecimal() else part for part in parts)
            total[pattern] = total.get(pattern, 0) + size
        if len(total) <= MOST_GROUPS or depth <= 1:
            return sorted(total, key=lambda pattern: (-total[pattern], pattern))[:MOST_GROUPS]
        depth -= 1


def _with(settings: Settings, pattern: str, dtype: Weights) -> tuple[tuple[str, Weights], ...]:
    return (*settings.overrides, (pattern, dtype))
