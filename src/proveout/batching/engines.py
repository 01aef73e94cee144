"""What computes a step: a compiled Generator with its slots, or a model of how long its steps take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proveout.batching import scheduler

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
    """Runs a Generator: prompts one after the other, each into its slot, and all slots' tokens at once."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def prefill(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]:
        import torch  # not at the top: modelled time needs none

        chosen = []
        for sequence in sequences:
            logits = self._generator.prefill(torch.tensor([sequence.tokens]), slots=[sequence.slot])
            chosen.append(int(logits[0].argmax()))
        return chosen, 0

    def decode(self, sequences: Sequence[scheduler.Sequence]) -> tuple[list[int], int]:
        import torch

        tokens = torch.zeros(self._generator.batch, dtype=torch.long)
        positions = torch.zeros(self._generator.batch, dtype=torch.long)
        for sequence in sequences:
            tokens[sequence.slot] = sequence.generated[-1]
            positions[sequence.slot] = sequence.length - 1
        logits = self._generator.decode(tokens, positions)
        return [int(logits[s.slot].argmax()) for s in sequences], 0
