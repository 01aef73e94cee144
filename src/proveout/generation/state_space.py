"""The two calls of a state space (Mamba). It keeps no keys and values: of each user and layer the last inputs of a
convolution and one state, which are as large after a thousand tokens as after one.

A prompt's states are computed in log2(length) steps over all of its places at once, where transformers takes one place
after the other: a Program of so many Steps would have no end. Padding changes no state, as its time steps are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import MambaForCausalLM

from proveout.generation.cache import is_slot
from proveout.generation.forwards import CacheStore
from proveout.generation.sampling import Sampling


@dataclass(frozen=True)
class StateShape:
    """What one layer keeps of a user, however long the text is."""

    channels: int
    taps: int
    """Inputs that the convolution looks back at."""
    size: int
    dtype: torch.dtype

    def cache(self, batch: int, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        window, state = (
            torch.zeros(batch, rows, self.channels, dtype=self.dtype, device=device) for rows in (self.taps, self.size)
        )
        return window, state

    def nbytes(self, batch: int, length: int) -> int:
        return batch * self.channels * (self.taps + self.size) * self.dtype.itemsize


def is_state_space(model: Any) -> bool:
    return isinstance(model, MambaForCausalLM)


def state_shapes(model: Any) -> tuple[StateShape, ...]:
    mixers = [block.mixer for block in model.backbone.layers]
    dtype = next(model.parameters()).dtype
    return tuple(StateShape(m.intermediate_size, m.conv_kernel_size - 1, m.ssm_state_size, dtype) for m in mixers)


def with_states(model: Any) -> Any:
    """The model, whose layers are not called as transformers does from now on but with what they keep."""
    model.backbone.layers = nn.ModuleList(Block(block) for block in model.backbone.layers)
    return model


class StatePrefill(nn.Module):
    """Prompts of one padded length into the states; gives the logits after each one's last token."""

    def __init__(self, model: Any, store: CacheStore, whole: bool) -> None:
        super().__init__()
        self.model, self.store, self.whole = model, store, whole

    def forward(self, ids: torch.Tensor, last: torch.Tensor, slots: torch.Tensor | None = None) -> torch.Tensor:
        """ids [prompts, length], each one's last place [prompts], their slots [prompts] -> [prompts, vocabulary]."""
        backbone, length = self.model.backbone, ids.shape[1]
        hidden = backbone.embeddings(ids)
        places = torch.arange(length, device=ids.device)
        counts = (places <= last[:, None])[..., None].to(hidden.dtype)  # [prompts, length, 1]
        taps = backbone.layers[0].mixer.taps
        ends = last[:, None] + 1 + torch.arange(taps, device=ids.device)  # in what has so many zeros before it
        window = (ends[..., None] == torch.arange(length + taps, device=ids.device)).to(hidden.dtype)
        for block, kept in zip(backbone.layers, self.store.pairs()):
            hidden = block(hidden, *kept, counts, window, None if self.whole else slots)
        chosen = (places == last[:, None])[:, None].to(hidden.dtype)  # [prompts, 1, length]
        return _logits(self.model, chosen @ hidden)


class StateDecode(nn.Module):
    """One token of each user; gives the logits for the next one, or with `sampling` that one itself. Positions and
    pages are taken and not needed."""

    def __init__(self, model: Any, store: CacheStore, sampling: Sampling | None = None) -> None:
        super().__init__()
        self.model, self.store, self.sampling = model, store, sampling

    def forward(
        self, token: torch.Tensor, position: torch.Tensor, table: None = None, uniform: torch.Tensor | None = None
    ) -> torch.Tensor:
        """token [batch], position [batch] -> [batch, vocabulary], or [batch] tokens."""
        backbone = self.model.backbone
        hidden = backbone.embeddings(token[:, None])
        for block, kept in zip(backbone.layers, self.store.pairs()):
            hidden = block(hidden, *kept)
        logits = _logits(self.model, hidden)
        return logits if self.sampling is None else self.sampling.choose(logits, uniform)


def _logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """[users, 1, size] -> [users, vocabulary]."""
    logits: torch.Tensor = model.lm_head(model.backbone.norm_f(hidden).to(model.lm_head.weight.dtype))
    return logits[:, 0].float()


class Block(nn.Module):
    """A layer with the modules of the one that it stands for."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.norm, self.mixer = block.norm, Mixer(block.mixer)
        self.residual_in_fp32 = block.residual_in_fp32

    def forward(
        self,
        hidden: torch.Tensor,
        window: torch.Tensor,
        state: torch.Tensor,
        counts: torch.Tensor | None = None,
        ends: torch.Tensor | None = None,
        slots: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """hidden [users, length, size]; what is kept is written to. Of prompts, `counts` [users, length, 1] is one up
        to each one's last place, and `ends` [users, taps, taps + length] picks the places before its end; without them
        one token follows what is kept."""
        normed = self.norm(hidden.to(self.norm.weight.dtype))
        if counts is None or ends is None:
            mixed, *left = self.mixer(normed, window, state)
        else:
            mixed, *left = self.mixer.prompt(normed, counts, ends)
        for held, new in zip((window, state), left):
            _keep(held, new, slots)
        return (hidden.float() if self.residual_in_fp32 else hidden) + mixed


def _keep(held: torch.Tensor, new: torch.Tensor, slots: torch.Tensor | None) -> None:
    if slots is None:
        held.copy_(new)
    elif new.shape[0] == 1:
        held.copy_(torch.where(is_slot(slots, held.shape[0])[:, None, None], new, held))
    else:
        held.index_copy_(0, slots, new)


class Mixer(nn.Module):
    """A convolution over the last inputs, and a state that each input is added to and decays in."""

    def __init__(self, mixer: Any) -> None:
        super().__init__()
        self.in_proj, self.conv1d, self.x_proj, self.dt_proj = mixer.in_proj, mixer.conv1d, mixer.x_proj, mixer.dt_proj
        self.out_proj, self.act, self.A_log, self.D = mixer.out_proj, mixer.act, mixer.A_log, mixer.D
        self.taps, self.rank, self.size = mixer.conv_kernel_size - 1, mixer.time_step_rank, mixer.ssm_state_size

    def forward(
        self, hidden: torch.Tensor, window: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """hidden [users, 1, size], window [users, taps, channels], state [users, state size, channels] -> the same."""
        inner, gate = self.in_proj(hidden).chunk(2, -1)
        seen = torch.cat([window, inner], 1)
        inner = self._activated((seen * self._filter()).sum(1, keepdim=True))
        step, into, out_of = self._selected(inner)
        state = state * torch.exp(self._decay() * step) + (step * inner) * into.transpose(1, 2)
        read = (state * out_of.transpose(1, 2)).sum(1, keepdim=True)
        return self._gated(read, inner, gate), seen[:, 1:], state

    def prompt(
        self, hidden: torch.Tensor, counts: torch.Tensor, ends: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """hidden [prompts, length, size] -> the same, and window and state after each one's last place."""
        length = hidden.shape[1]
        inner, gate = self.in_proj(hidden).chunk(2, -1)
        padded, weight = F.pad(inner, (0, 0, self.taps, 0)), self._filter()
        window = ends @ padded
        inner = self._activated(sum(padded[:, tap : tap + length] * weight[tap] for tap in range(self.taps + 1)))
        step, into, out_of = self._selected(inner)
        step = step * counts
        # [prompts, state size, length, channels]: what is kept of the state before, and what comes to it
        kept = torch.exp(self._decay()[:, None] * step[:, None])
        state = (step * inner)[:, None] * into.transpose(1, 2)[..., None]
        shift = 1
        while shift < length:  # after each round a place has gathered from twice as many places before it
            state = state + kept * F.pad(state[:, :, :-shift], (0, 0, shift, 0))
            kept = kept * F.pad(kept[:, :, :-shift], (0, 0, shift, 0), value=1.0)
            shift *= 2
        read = (state * out_of.transpose(1, 2)[..., None]).sum(1)
        return self._gated(read, inner, gate), window, state[:, :, -1]

    def _filter(self) -> torch.Tensor:
        """[taps + 1, channels]."""
        return self.conv1d.weight[:, 0].t()

    def _activated(self, convolved: Any) -> torch.Tensor:
        activated: torch.Tensor = self.act(convolved if self.conv1d.bias is None else convolved + self.conv1d.bias)
        return activated

    def _selected(self, inner: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The time step [users, length, channels]; what goes into the state and is read of it [users, length, size]."""
        step, into, out_of = self.x_proj(inner).split([self.rank, self.size, self.size], -1)
        return F.softplus(self.dt_proj(step)), into, out_of

    def _decay(self) -> torch.Tensor:
        """[state size, channels]."""
        return -torch.exp(self.A_log.float()).t()

    def _gated(self, read: torch.Tensor, inner: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out_proj(((read + inner * self.D) * F.silu(gate)).to(gate.dtype))
        return out
