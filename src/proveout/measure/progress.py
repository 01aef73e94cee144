"""How long a benchmark still takes, said honestly: a lower bound until one configuration has shown what comes on top.

Loading and warm-up are not part of `duration`. Before any configuration has ended, nobody knows them; afterwards, what
the finished ones took beyond their durations is expected of each that waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proveout.measure.settings import UNTIMED_S
from proveout.serving import Configuration
from proveout.words import counted

UNTIL_DONE = "until its calls are done"


@dataclass(frozen=True)
class TimeLeft:
    seconds: float
    at_least: bool
    """Whether this is all that can be said, or an estimate from what was seen."""

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'about'} {_words(self.seconds)}"


def time_left(finished: Sequence[tuple[Configuration, float]], waiting: Sequence[Configuration]) -> TimeLeft:
    """From (configuration, seconds it really took) of the finished ones to what the waiting ones will take.

    A configuration that stopped early (`max_infers`, a fault) tells nothing about loading: it is left out.
    """
    waiting_s = sum(c.duration_s for c in waiting)
    extras = [took - c.duration_s for c, took in finished if took >= c.duration_s]
    if not waiting or not extras:
        return TimeLeft(waiting_s, at_least=bool(waiting))
    return TimeLeft(waiting_s + len(waiting) * sum(extras) / len(extras), at_least=False)


def line(number: int, total: int, configuration: Configuration, left: TimeLeft) -> str:
    """`[2/4] net on cpu: 1 model × 2 workers, batch 8; about 25 s remaining.`"""
    c = configuration
    models = counted(c.n_models, "model")
    workers = counted(c.workers_per_model, "worker")
    pipeline = f", over {c.pipeline_size} chips" if c.pipeline_size > 1 else ""
    load = f", {c.load.mode}" + (f" {c.load.rate:g}/s" if c.load.rate else "") if c.load.mode != "closed" else ""
    what = f"{c.model_name} on {c.device}: {models} × {workers}, batch {c.batch_size}{pipeline}{load}"
    counts_calls = c.max_infers is not None or c.duration_s >= UNTIMED_S
    return f"[{number}/{total}] {what}; {UNTIL_DONE if counts_calls else f'{left} remaining'}."


def _words(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
