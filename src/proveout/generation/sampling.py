"""How the next token is chosen from the logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from proveout.errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """Greedy at temperature 0; otherwise random among the `top_k` most likely tokens, of those the most likely that
    together have a probability of at least `top_p`. The same seed gives the same tokens."""

    temperature: float = 0.0
    top_k: int = 0
    """0: all of them."""
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature={self.temperature} is not a finite number of at least 0 (0 is greedy).")
        if self.top_k < 0:
            raise UsageError(f"top_k={self.top_k} is negative; 0 means all tokens.")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p={self.top_p} is not above 0 and at most 1.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def choose(self, logits: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        """One token for each row of `logits` [rows, vocabulary]."""
        if self.greedy:
            return logits.argmax(-1)
        return torch.multinomial(self.probabilities(logits), 1, generator=random)[:, 0]

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """What is drawn from, [rows, vocabulary]."""
        scores = logits.float() / self.temperature
        if 0 < self.top_k < scores.shape[-1]:
            least = scores.topk(self.top_k, -1).values[:, -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
        if self.top_p < 1:
            ranked, order = scores.softmax(-1).sort(-1, descending=True)
            beyond = ranked.cumsum(-1) - ranked >= self.top_p  # those before it have enough already
            scores = scores.masked_fill(beyond.scatter(-1, order, beyond), -torch.inf)
        return scores.softmax(-1)


GREEDY = Sampling()
