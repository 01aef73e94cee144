"""How fast a decoder generates, as plain data: what a worker is asked, and a row for each batch and length."""

from __future__ import annotations

from dataclasses import dataclass, field

from proveout.types import Kind, Settings, Timing


@dataclass(frozen=True)
class SpeedAsk:
    """A script whose decoder is to be planned or timed for each batch and prompt length."""

    script: str
    script_args: str = ""
    device: str = "sim"
    settings: Settings = field(default_factory=Settings)
    batches: tuple[int, ...] = (1,)
    prompt_lengths: tuple[int, ...] = (128,)
    new_tokens: int = 32
    runs: int = 5
    """Prompts to time where a clock does."""
    max_length: int = 0
    """Positions of the cache; 0: as many as a row needs."""


@dataclass(frozen=True)
class SpeedRow:
    """One batch and one prompt length. Bytes are a chip's own, of which `num_chips` compute together."""

    batch: int
    prompt_length: int
    max_length: int
    kind: Kind
    first_token: Timing | None
    """The prefill of one user's prompt; None where the host has a part in it that nothing timed."""
    per_token: Timing
    """A decode step of all users."""
    weight_bytes: int
    cache_bytes: int
    peak_bytes: int | None = None
    """Of DRAM, while it decodes; None where memory is not modelled."""
    dram_bytes: int | None = None
    fits: bool = True
    short: str = ""
    longest_context: int | None = None
    """Positions for each of so many users that fit beside all else, and that the model knows; None where memory is
    not modelled, and for a state space, which keeps as much whatever the length."""
    largest_batch: int | None = None
    """Users with that many positions each."""
    num_chips: int = 1
    parallel: tuple[str, ...] = ()
    """How several chips are used."""

    @property
    def per_user(self) -> float:
        """Tokens per second that each user sees."""
        return 1e9 / self.per_token.median_ns

    @property
    def total(self) -> float:
        return self.per_user * self.batch


@dataclass(frozen=True)
class SpeedTold:
    """All rows, or why there are none."""

    model: str = ""
    error: str = ""
    failure: str = ""
    parameters: int = 0
    rows: tuple[SpeedRow, ...] = ()
    seconds: float = 0.0
