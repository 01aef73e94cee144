"""What computes a step: a compiled Generator with its slots, or a model of how long its steps take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proveout.batching import scheduler
from proveout.errors import UsageError

if TYPE_CHECKING:
    from proveout.generation.generator import Generator


@dataclass(frozen=True)
class StepTimes:
    """How long steps take, in ns: a decode step of all slots, and the prefill of one prompt by its padded length."""

    decode_ns: int
    prefill_ns: tuple[tuple[int, int], ...]

    def prefill(self, length: int) -> int:
        """Of one prompt; a prompt beyond the longest length is computed in pieces of that."""
        longest, most_ns = self.prefill_ns[-1]
        whole, rest = divmod(length, longest)
        last = next((ns for padded, ns in self.prefill_ns if padded >= rest), most_ns) if rest else 0
        return whole * most_ns + last


@dataclass(frozen=True)
class ModelledEngine:
    """Takes no time and computes nothing: each token is its sequence's length."""

    times: StepTimes

    def prefill(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]:
        return [s.length for s in sequences], sum(self.times.prefill(s.length) for s in sequences)

    def decode(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]:
        return [s.length for s in sequences], self.times.decode_ns


class GeneratorEngine:
    """Runs a Generator whose cache is in pages: prompts one after the other, each into the pages that the scheduler
    gave it, and all slots' tokens at once."""

    def __init__(self, generator: Generator) -> None:
        if generator.paging is None:
            raise UsageError("a scheduler hands out pages: compile the generator with a page_size.")
        self._generator = generator

    def prefill(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]:
        import torch  # not at the top: modelled time needs none

        chosen = []
        for sequence in sequences:
            logits = self._generator.prefill(torch.tensor([sequence.tokens]), None, [sequence.slot], [sequence.pages])
            chosen.append(int(logits[0].argmax()))
        return chosen, 0

    def decode(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]:
        import torch

        tokens = torch.zeros(self._generator.batch, dtype=torch.long)
        positions = torch.zeros(self._generator.batch, dtype=torch.long)
        tables: list[tuple[int, ...]] = [()] * self._generator.batch
        for sequence in sequences:
            tokens[sequence.slot] = sequence.generated[-1]
            positions[sequence.slot] = sequence.length - 1
            tables[sequence.slot] = sequence.pages
        chosen = self._generator.next_token(tokens, positions, tables)
        return [int(chosen[s.slot]) for s in sequences], 0
