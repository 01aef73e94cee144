"""What a generation is asked for and what is learnt from it, as plain data: a worker's request and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from proveout.types import Settings, Timing

DECODE = "decode"
"""The call of a step, as phases are named."""


@dataclass(frozen=True)
class GenerationRequest:
    """A script whose decoder is to generate, and how."""

    script: str
    script_args: str = ""
    device: str = "sim"
    settings: Settings = field(default_factory=Settings)
    prompt_length: int = 32
    new_tokens: int = 32
    batch: int = 1
    max_length: int = 0
    """Positions of the cache; 0: as many as are needed."""
    page_size: int = 0
    """Tokens of a page of the cache; 0: the cache is not in pages."""
    pages: int = 0
    """Pages that users share; 0: as many as all of them can fill."""
    recipe: str = ""
    """Formats of the weights, by name; `auto` takes the smallest within `budget`; empty: what the settings say."""
    budget: float = 0.95
    """Share of tokens that must agree with eager's under teacher forcing, for `auto`."""
    dry_run: bool = False
    """Plan only: the model is made without its weights, and nothing is computed."""


@dataclass(frozen=True)
class Agreement:
    """How often the device chooses as eager mode does when both are given eager's tokens (teacher forcing)."""

    steps: int
    top1: float
    """Share of steps whose most likely token is eager's."""
    top5: float
    """Share of steps where eager's token is among the device's five most likely."""
    pcc: float | None
    """Of all logits."""


@dataclass(frozen=True)
class PhaseReport:
    """One kind of call."""

    name: str
    steps: int
    on_host: int
    """Steps that no kernel serves."""
    transfers: int
    resident: int
    """Tensors of the cache that stay on the device between calls."""
    kernels: tuple[tuple[str, int], ...] = ()
    modelled_ns: int | None = None
    low_ns: int | None = None
    high_ns: int | None = None
    calibrated: float | None = None
    """All four are None where time is measured, and where Steps are on the host, whose time no plan knows."""
    chip_alone_ns: int | None = None
    """Modelled time of the chip's part."""
    measured: Timing | None = None
    """Wall-clock times of calls here; on a modelled chip they are the simulation's. None where nothing ran."""
    fits: bool = True
    peak_dram_bytes: int = 0
    short: str = ""
    """What does not fit, and what would."""


@dataclass(frozen=True)
class GenerationReport:
    """What a generation gave, or why it gave nothing."""

    model: str = ""
    error: str = ""
    failure: str = ""
    batch: int = 1
    prompt_lengths: tuple[int, ...] = ()
    new_tokens: int = 0
    max_length: int = 0
    parameters: int = 0
    weight_bytes: int = 0
    cache_bytes: int = 0
    recurrent: bool = False
    """Whether what it keeps is a state space's, of the same size for every length."""
    page_size: int = 0
    pages: int = 0
    """Of the cache, where it is in pages."""
    equal_tokens: int | None = None
    """How many tokens were eager's before the first difference of each user, in all; None where nothing ran."""
    agreement: Agreement | None = None
    phases: tuple[PhaseReport, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    """To compile or plan."""
    peak_rss_bytes: int = 0
