"""Runs a graph or a Program between passes on random inputs, and names the pass that changed its meaning."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter

from proveout.errors import OutOfMemory
from proveout.program import InvalidProgram, Program

Replay = Callable[[Program, Sequence[Any], Mapping[str, Any]], Sequence[Any]]
"""How the engine runs a Program: its inputs in order, its weights by name; outputs come back."""

EXACT, ROUNDED, NARROWED = 1e-3, 5e-2, 0.3
"""Relative L2 distance that a pass may add: between float32 values, between values that bfloat16 rounds, and from a
float32 graph to the bfloat16 Program lowered from it. A pass that breaks the meaning is far beyond."""


NARROWS = ("lower", "pack_cache", "pack_weights", "spread")
"""The stages that may go over to a narrower dtype; `spread` is held against the graph, like `lower`."""


class Witness:
    """Remembers what the last stage computed; each stage's result is held against it."""

    def __init__(self, gm: GraphModule, replay: Replay, weights: frozenset[int], num_state: int = 0) -> None:
        self._replay, self._num_state = replay, num_state
        placeholders = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self._arguments = [
                _random(v, weight=i in weights) if isinstance(v, torch.Tensor) else v
                for i, v in enumerate(placeholders)
            ]
        self.positions: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        """Which of the graph's arguments are the Program's inputs and weights, once there is a Program."""
        self._seen: list[Any] | None = None
        if _is_repeatable(gm) and all(map(_is_plain, self._arguments)):
            with contextlib.suppress(Exception):  # numbers that this model does not take: then there is no witness
                self._seen = self._run_graph(gm)

    def see(self, stage: str, result: GraphModule | Program) -> None:
        """Hold what a stage gave against what the one before it computed."""
        if self._seen is None:
            return
        if isinstance(result, GraphModule):
            self._hold(stage, self._run_graph(result), EXACT)
            return
        inputs, weights = self.positions
        named = {name: self._arguments[i] for name, i in zip(result.weights, weights, strict=True)}
        try:
            replayed = self._replay(result, [self._arguments[i] for i in inputs], named)
        except OutOfMemory:
            return  # a later pass makes it fit, or the plan says why not
        rounds = any(spec.dtype.startswith("bfloat") for spec in result.specs.values())
        self._hold(stage, replayed, EXACT if not rounds else NARROWED if stage in NARROWS else ROUNDED)

    def _run_graph(self, gm: GraphModule) -> list[Any]:
        with torch.no_grad():
            outputs = list(Interpreter(gm).run(*self._arguments))
        return outputs[: len(outputs) - self._num_state]

    def _hold(self, stage: str, outputs: Sequence[Any], tolerance: float) -> None:
        assert self._seen is not None
        for index, (before, after) in enumerate(zip(self._seen, outputs, strict=True)):
            if isinstance(before, torch.Tensor) and _is_plain(before):
                distance = _distance(before, after)
                if distance > tolerance:
                    raise InvalidProgram(
                        f"the pass {stage!r} changed the meaning: output {index} moved by {distance:.3g} of its size, "
                        f"{tolerance:g} is allowed"
                    )
        self._seen = list(outputs)


def _distance(before: torch.Tensor, after: Any) -> float:
    if not isinstance(after, torch.Tensor) or (before.shape, before.dtype) != (after.shape, after.dtype):
        return float("inf")
    if not before.is_floating_point():
        return float((before != after).double().mean()) if before.numel() else 0.0
    a, b = (t.double().nan_to_num(posinf=1e30, neginf=-1e30) for t in (before, after))
    return float((a - b).norm() / a.norm().clamp_min(1e-12))


def _random(like: torch.Tensor, weight: bool) -> torch.Tensor:
    """Values that most models take: indices and masks of 0 and 1, weights of a size that keeps signals finite."""
    if not like.is_floating_point():
        return torch.randint(0, 2, tuple(like.shape)).to(like.dtype)
    if not weight:
        return torch.randn(tuple(like.shape)).to(like.dtype)
    if like.dim() < 2:
        return torch.empty(tuple(like.shape)).uniform_(0.5, 1.5).to(like.dtype)  # norms' scales, variances, biases
    return (torch.randn(tuple(like.shape)) / max(1, like[0].numel()) ** 0.5).to(like.dtype)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or (value.layout == torch.strided and not value.is_complex())


def _is_repeatable(gm: GraphModule) -> bool:
    """Random numbers and uninitialised memory differ from run to run, and indices of maxima are no random numbers."""
    targets = [n.target for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    unfit = ("empty", "with_indices_backward")
    return not any(
        torch.Tag.nondeterministic_seeded in t.tags or any(part in t._schema.name for part in unfit) for t in targets
    )
