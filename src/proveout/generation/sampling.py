"""How the next token is chosen from the logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from proveout.errors import UsageError

MOST_CANDIDATES = 64
"""Tokens that a chip chooses among: what ttnn.topk gives in one go."""


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

    @property
    def on_device(self) -> bool:
        """Whether a decode Program can do it: to sort a whole vocabulary is not for a chip."""
        return self.greedy or 0 < self.top_k <= MOST_CANDIDATES

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def uniform(self, rows: int, random: torch.Generator) -> torch.Tensor:
        """[rows, 1] numbers from 0 to 1: all that is random about a draw, whoever makes it."""
        return torch.rand(rows, 1, generator=random)

    def choose(self, logits: torch.Tensor, uniform: torch.Tensor | None) -> torch.Tensor:
        """One token for each row of `logits` [rows, vocabulary]: where its number lies among the probabilities, from
        the most likely token on. A Program may do this as well as the host."""
        if self.greedy:
            return logits.argmax(-1)
        assert uniform is not None
        count = min(self.top_k or logits.shape[-1], logits.shape[-1])
        scores, tokens = logits.topk(count, -1)
        shares = (scores.float() / self.temperature).softmax(-1)
        if self.top_p < 1:  # of no use are those before which there is enough already
            shares = shares.masked_fill(shares.cumsum(-1) - shares >= self.top_p, 0.0)
        ends = shares.cumsum(-1)
        rank = (ends <= uniform * ends[:, -1:]).sum(-1, keepdim=True).clamp(max=count - 1)
        return tokens.gather(-1, rank)[:, 0]


GREEDY = Sampling()
