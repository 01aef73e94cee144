"""Layers that PyTorch itself runs as one op in inference (`nn.TransformerEncoderLayer`'s fast path, an LSTM by oneDNN),
written out in the ops that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch._decomp.decompositions import one_layer_lstm
from torch.nn import functional as F

Tensor = torch.Tensor
aten = torch.ops.aten
ATTENTION_MASK, PADDING_MASK = 0, 1
"""What a mask is, by its `mask_type`: of queries and keys, or of the keys of each row; any other is both, by head."""


def multi_head_attention(call: Any) -> Any:
    if call.need_weights or call.query is not call.key or call.key is not call.value:
        return NotImplemented
    weights = call.qkv_weight, call.qkv_bias, call.proj_weight, call.proj_bias
    return _attention(call.query, call.num_head, weights, call.mask, call.mask_type), call.query.new_empty(0)


def _attention(x: Tensor, num_heads: int, weights: Sequence[Tensor], mask: Tensor | None, kind: int | None) -> Tensor:
    qkv_weight, qkv_bias, proj_weight, proj_bias = weights
    batch, length, width = x.shape
    qkv = F.linear(x, qkv_weight, qkv_bias)  # [batch, length, 3 * width]
    q, k, v = qkv.view(batch, length, 3, num_heads, width // num_heads).permute(2, 0, 3, 1, 4).unbind(0)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=_kept_scores(mask, kind))
    return F.linear(heads.transpose(1, 2).reshape(batch, length, width), proj_weight, proj_bias)


def _kept_scores(mask: Tensor | None, mask_type: int | None) -> Tensor | None:
    """The op's mask says which scores to leave out, whatever its dtype; attention's says which to keep."""
    if mask is None:
        return None
    kept = mask.to(torch.bool).logical_not()
    if mask_type == ATTENTION_MASK and mask.dim() == 2:
        return kept[None, None]
    return kept[:, None, None] if mask_type == PADDING_MASK else kept


def transformer_encoder_layer(call: Any) -> Any:
    if call.src.is_nested:
        return NotImplemented
    weights = call.qkv_weight, call.qkv_bias, call.proj_weight, call.proj_bias

    def attention(x: Tensor) -> Tensor:
        return _attention(x, call.num_heads, weights, call.mask, call.mask_type)

    def feed_forward(x: Tensor) -> Tensor:
        hidden = F.linear(x, call.ffn_weight_1, call.ffn_bias_1)
        return F.linear(F.gelu(hidden) if call.use_gelu else F.relu(hidden), call.ffn_weight_2, call.ffn_bias_2)

    def norm_1(x: Tensor) -> Tensor:
        return F.layer_norm(x, (call.embed_dim,), call.norm_weight_1, call.norm_bias_1, call.eps)

    def norm_2(x: Tensor) -> Tensor:
        return F.layer_norm(x, (call.embed_dim,), call.norm_weight_2, call.norm_bias_2, call.eps)

    if call.norm_first:
        x = attention(norm_1(call.src)) + call.src
        return feed_forward(norm_2(x)) + x
    x = norm_1(attention(call.src) + call.src)
    return norm_2(feed_forward(x) + x)


def lstm_layer(call: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One layer in one direction, which is all that PyTorch asks of this op."""
    biases = (call.weight2, call.weight3) if call.has_biases else ()
    state = call.hx_[0], call.cx_[0]
    params = [call.weight0, call.weight1, *biases]
    out, (hy, cy) = one_layer_lstm(call.input, state, params, call.has_biases, call.reverse)
    return out, hy[None], cy[None], call.input.new_empty(0, dtype=torch.uint8)


def _by_schema(op: torch._ops.OpOverload, rule: Callable[[Any], Any]) -> Callable[..., Any]:
    """The rule for a call of an op, whose arguments are told by the names that its schema gives them."""

    def decompose(*args: Any, **kwargs: Any) -> Any:
        defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
        named = dict(zip((a.name for a in op._schema.arguments), args))
        return rule(SimpleNamespace(**{**defaults, **named, **kwargs}))

    return decompose


FUSED_LAYERS = {
    op: _by_schema(op, rule)
    for op, rule in {
        aten._native_multi_head_attention.default: multi_head_attention,
        aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
        aten.mkldnn_rnn_layer.default: lstm_layer,
    }.items()
}
