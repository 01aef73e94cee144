"""A model of the same parameters in a form that Programs are made of: nothing in it depends on data or loses positions.

Mixtures of experts have fixed shapes: every expert sees every token, and the router's weights pick. transformers sorts
tokens by expert, so that shapes depend on data. Rotary positions are looked up in a table, computed once in float32: a
position is no more than a number to a chip, and bfloat16 holds none above 256 exactly. Falcon's one key and one value
head are slices; transformers takes them with lists of indices, which a model without data cannot have. GPT-Neo's
local layers look at a window before the token's own position; transformers counts it from the end of the cache.
"""

from __future__ import annotations

import copy
import inspect
import types
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.models.falcon.modeling_falcon import FalconAttention
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoSelfAttention

DENSE = "proveout_dense"
VARYING = frozenset({"dynamic", "longrope"})
"""Kinds of rotary positions whose angles depend on how long the text is."""


def twin_of(model: Any, length: int, place: torch.device | None = None) -> Any:
    """The same parameters in modules of its own, for texts of at most `length` tokens; on `place` copies of them, where
    they lie elsewhere."""
    twin = copy.deepcopy(model, {id(t): _at(t, place) for t in (*model.parameters(), *model.buffers())})
    if twin._can_set_experts_implementation():
        ALL_EXPERTS_FUNCTIONS.register(DENSE, dense_experts)
        for config in {id(m.config): m.config for m in twin.modules() if hasattr(m, "config")}.values():
            config._experts_implementation = DENSE
    for parent in list(twin.modules()):
        rotary = getattr(parent, "rotary_emb", None)
        if isinstance(rotary, nn.Module) and has_fixed_angles(rotary):
            parent.rotary_emb = RotaryTable(rotary, length)
        for kind, (name, method) in METHODS.items():
            if isinstance(parent, kind):
                setattr(parent, name, types.MethodType(method, parent))
    return twin


def _at(tensor: torch.Tensor, place: torch.device | None) -> torch.Tensor:
    if place is None or tensor.device == place:
        return tensor
    moved = tensor.detach().to(place)
    return nn.Parameter(moved, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else moved


def dense_experts(
    experts: Any, hidden: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """hidden [tokens, size]; of each token the experts chosen and their weights, [tokens, k]."""
    chosen = torch.zeros(hidden.shape[0], experts.num_experts, dtype=top_k_weights.dtype, device=hidden.device)
    chosen = chosen.scatter(1, top_k_index, top_k_weights)
    first = "gate_up_proj" if experts.has_gate else "up_proj"
    inner = _linear(experts, hidden.expand(experts.num_experts, *hidden.shape), first)
    inner = experts._apply_gate(inner) if experts.has_gate else experts.act_fn(inner)
    out = _linear(experts, inner, "down_proj")
    if getattr(experts, "has_post_expert_norm", False):
        out = experts.post_expert_norm(out)
    return (out * chosen.t()[:, :, None]).sum(0).to(hidden.dtype)


def _linear(experts: Any, x: torch.Tensor, name: str) -> torch.Tensor:
    """x [experts, tokens, in] -> [experts, tokens, out]."""
    weight = getattr(experts, name)
    out = x @ (weight if experts.is_transposed else weight.transpose(-1, -2))
    return out + getattr(experts, f"{name}_bias")[:, None] if experts.has_bias else out


def falcon_heads(attention: Any, fused: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """fused [batch, length, …] -> queries, keys and values [batch, length, heads, size]."""
    size = attention.head_dim
    if attention.new_decoder_architecture:  # groups of queries, each followed by its key and its value
        per_group = attention.num_heads // attention.num_kv_heads
        groups = fused.unflatten(-1, (-1, per_group + 2, size))
        pairs = (groups[..., at : at + 1, :].expand(-1, -1, -1, per_group, -1) for at in (per_group, per_group + 1))
        queries, keys, values = (x.flatten(2, 3) for x in (groups[..., :per_group, :], *pairs))
        return queries, keys, values
    if not attention.multi_query:  # a query, a key and a value for each head
        heads = fused.unflatten(-1, (attention.num_heads, 3, size))
        return heads[..., 0, :], heads[..., 1, :], heads[..., 2, :]
    heads = fused.unflatten(-1, (attention.num_heads + 2, size))
    return heads[..., :-2, :], heads[..., -2:-1, :], heads[..., -1:, :]


def gpt_neo_attention(
    attention: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each [batch, heads, length, size]; a mask that is 0 where a query sees a position from 0 to its own."""
    window, length = attention.config.window_size, key.shape[-2]
    if attention.attention_type == "local" and window < length:
        gone = F.pad(attention_mask[..., window:] == 0, (0, window))  # it also sees what is a window later
        attention_mask = attention_mask.masked_fill(gone, torch.finfo(attention_mask.dtype).min)
    scores = query.float() @ key.float().transpose(-1, -2) + attention_mask
    weights = scores.softmax(-1).to(value.dtype)
    return weights @ value, weights


METHODS: dict[type, tuple[str, Any]] = {
    FalconAttention: ("_split_heads", falcon_heads),
    GPTNeoSelfAttention: ("_attn", gpt_neo_attention),
}
"""What some modules do otherwise in a twin."""


def has_fixed_angles(rotary: nn.Module) -> bool:
    """Whether a rotary embedding of transformers gives each position the same angles at every call."""
    kind = getattr(rotary, "rope_type", None)
    kinds = set(kind.values()) if isinstance(kind, dict) else {kind}
    names = list(inspect.signature(rotary.forward).parameters)
    return (
        None not in kinds
        and not kinds & VARYING
        and names in (["x", "position_ids"], ["x", "position_ids", "layer_type"])
    )


class RotaryTable(nn.Module):
    """Cosines and sines of every position, or the complex numbers of both, as the embedding that it stands for gives
    them."""

    def __init__(self, rotary: Any, length: int) -> None:
        super().__init__()
        by_type = "layer_type" in inspect.signature(rotary.forward).parameters
        buffer = next(rotary.buffers())
        positions = torch.arange(length, device=buffer.device)[None]
        like = torch.empty(0, dtype=torch.float32, device=buffer.device)
        self.complex = False
        for kind in dict.fromkeys(rotary.config.layer_types) if by_type else ("",):
            tables = rotary(like, positions, *([kind] if by_type else []))
            if isinstance(tables, torch.Tensor):
                self.complex, tables = True, (tables.real, tables.imag)
            for name, table in zip(("cos", "sin"), tables):
                self.register_buffer(f"{name}_{kind}", table[0].detach().clone(), persistent=False)

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor, layer_type: str = "") -> Any:
        tables = (getattr(self, f"{name}_{layer_type}") for name in ("cos", "sin"))
        cos, sin = (F.embedding(position_ids, table) for table in tables)
        return torch.complex(cos, sin) if self.complex else (cos.to(x.dtype), sin.to(x.dtype))
