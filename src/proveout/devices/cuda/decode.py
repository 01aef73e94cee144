"""Greedy generation over a static cache: one step, from the last token to the next, is captured once and then replayed;
tokens, position and cache stay on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from proveout.devices.cuda.body import renamed
from proveout.devices.cuda.modes import WARM_UP
from proveout.devices.cuda.rewrite import APPEND
from proveout.program import Program, Ref

Tensor = torch.Tensor
Step = Callable[[Tensor, Tensor], Tensor]
"""From tokens [batch, 1] and their position [1] to logits [batch, vocabulary]. It writes to caches of its own, and the
same when it is called again at the same position."""


def written(program: Program) -> frozenset[str]:
    """The inputs of a rewritten Program that its own calls write to: caches, which the caller need not update."""
    caches = (step.attr(name) for step in program.body if step.kernel == APPEND for name in ("keys", "values"))
    return frozenset(cache.name for cache in caches if isinstance(cache, Ref))


def with_one(program: Program, names: Sequence[str]) -> Program:
    """The Program where the first of these inputs, which always hold the same, stands for all of them."""
    known = dict.fromkeys(names[1:], names[0] if names else "")
    body = tuple(replace(step, attrs=tuple((k, renamed(v, known)) for k, v in step.attrs)) for step in program.body)
    return replace(program, body=body, outputs=tuple(renamed(o, known) for o in program.outputs))


class Decoding:
    """Sequences that grow by the most likely token. On a GPU a step is one CUDA graph, unless `trace` is False."""

    def __init__(self, step: Step, batch: int, device: torch.device, trace: bool = True) -> None:
        self.step = step
        self.tokens = torch.zeros(batch, 1, dtype=torch.int64, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.logits: Tensor | None = None
        self._trace = trace and self.tokens.is_cuda
        self._graph: torch.cuda.CUDAGraph | None = None

    def start(self, tokens: Tensor, position: int) -> None:
        """The last known tokens [batch, 1] and where they stand; the cache holds what is before them."""
        self.tokens.copy_(tokens)
        self.position.fill_(position)

    def advance(self) -> None:
        """The next token of each sequence, in `tokens`."""
        if self._trace and self._graph is None:
            self._graph = self._captured()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._once()

    def generate(self, count: int) -> Tensor:
        """The next tokens, [batch, count]."""
        generated = self.tokens.new_empty(self.tokens.shape[0], count)
        for index in range(count):
            self.advance()
            generated[:, index : index + 1].copy_(self.tokens)
        return generated

    def _once(self) -> None:
        with torch.no_grad():
            self.logits = self.step(self.tokens, self.position)
            self.tokens.copy_(self.logits.argmax(-1, keepdim=True))
            self.position.add_(1)

    def _captured(self) -> torch.cuda.CUDAGraph:
        """The graph of a step. Steps before it (choices are measured and kernels compiled then) leave no trace: the
        capture itself runs nothing, and the first replay writes the same rows again."""
        tokens, position = self.tokens.clone(), self.position.clone()
        side = torch.cuda.Stream(self.tokens.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.tokens.copy_(tokens)
                self.position.copy_(position)
                self._once()
            self.tokens.copy_(tokens)
            self.position.copy_(position)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._once()
        return graph
