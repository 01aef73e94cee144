"""Language models of transformers as a decoding step over a static cache: as PyTorch runs it, and as our Program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from cuda_programs import captured
from torch import Tensor, nn

from proveout.devices.cuda import OnCuda
from proveout.devices.cuda.decode import with_one, written
from proveout.devices.cuda.rewrite import rewrite
from proveout.devices.resident import Resident
from proveout.types import Settings

LENGTH = 128
PROMPT = 64
Step = Callable[[Tensor, Tensor], Tensor]


class OneToken(nn.Module):
    """A causal model with its static cache inside, which is written to in place."""

    def __init__(self, model: nn.Module, batch: int, device: torch.device, length: int = LENGTH) -> None:
        super().__init__()
        from transformers import StaticCache

        self.model, self.length = model, length
        config = model.config
        self.cache = StaticCache(config=config, max_cache_len=length)
        heads = config.num_attention_heads
        dtype = next(model.parameters()).dtype
        self.cache.early_initialization(batch, heads, config.hidden_size // heads, dtype, device)

    def reset(self) -> None:
        self.cache.reset()

    def prefill(self, tokens: Tensor) -> None:
        """Fill the cache with a prompt, in PyTorch."""
        with torch.no_grad():
            self(tokens, torch.arange(tokens.shape[1], device=tokens.device))

    def at(self, length: int) -> None:
        """Versions of transformers that count what a cache holds count from here."""
        for layer in self.cache.layers:
            if isinstance(getattr(layer, "cumulative_length", None), Tensor):
                layer.cumulative_length.fill_(length)

    def state(self) -> list[Tensor]:
        """All tensors of the cache."""
        return [t for layer in self.cache.layers for t in vars(layer).values() if isinstance(t, Tensor)]

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        # The mask is made here because transformers makes some with tensors of the host, which no CUDA graph may read.
        weight = next(self.model.parameters())
        seen = torch.arange(self.length, device=tokens.device) <= position[:, None]
        mask = torch.where(seen, 0.0, torch.finfo(weight.dtype).min).to(weight.dtype)[None, None]
        out = self.model(
            input_ids=tokens, position_ids=position[None], cache_position=position, past_key_values=self.cache,
            attention_mask=mask, use_cache=True,
        )  # fmt: skip
        return out.logits[:, -1]


def program_step(
    step: OneToken, there: OneToken, tokens: Tensor, settings: Settings, device: torch.device, wrap: Any = None
) -> tuple[Step, Any]:
    """The step through its Program: `step` is captured on the CPU, and its Program works on the cache of `there`,
    the same step on a GPU. Gives the function and the loaded Program; on a CPU `wrap` may compile it."""
    position = torch.zeros(1, dtype=torch.int64)
    graph, arguments = captured(step, tokens, position)
    compiled = graph.variant(arguments).compiled
    program, positions = compiled.program, compiled.input_positions
    weights = {n: arguments[i] for n, i in zip(program.weights, compiled.weight_positions)}
    moved = {id(a): b for a, b in zip(step.state(), there.state(), strict=True)}
    counters = {id(t) for t in step.state() if t.numel() == 1}
    names = {i: name for name, i in zip(program.inputs, positions)}
    counted = [names[i] for i, t in enumerate(arguments) if id(t) in counters and i in names]
    program = with_one(program, counted)  # every layer counts the same tokens
    kept = {i for i, t in enumerate(arguments) if id(t) in counters}
    absorbed = kept | {i for i, name in names.items() if name in written(rewrite(program))}
    writes = [w for w in graph.writes.writes if w.position not in absorbed]
    if not writes:
        program = replace(program, outputs=program.outputs[:1])
    places = [moved.get(id(t), t) for t in arguments]
    loaded: Any
    if device.type == "cuda":
        loaded = OnCuda(program, settings, device, form="apart")
        loaded.set_weights(weights)
        example = [places[i].to(device) if isinstance(places[i], Tensor) else places[i] for i in positions]
        call = loaded.kernels(example).call
    else:
        loaded = Resident(rewrite(program), wrap=wrap)
        loaded.set_weights(weights)
        call = lambda now: loaded.run(now).outputs  # noqa: E731

    def run(tokens_now: Tensor, position_now: Tensor) -> Tensor:
        now = {id(tokens): tokens_now, id(position): position_now} | dict.fromkeys(counters, position_now.view(()))
        outputs = call([now.get(id(arguments[i]), places[i]) for i in positions])
        for write in writes:
            write.apply(places[write.position], outputs)
        return outputs[0]

    return run, loaded
