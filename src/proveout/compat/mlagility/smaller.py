"""A transformer's published sizes at laptop size, by one rule for all, so that checkpoints that differ still do."""

from __future__ import annotations

import math
from typing import Any

Sizes = dict[str, Any]

WIDTHS = ("hidden_size", "d_model", "n_embd", "dim")
HEADS = ("num_attention_heads", "num_heads", "n_head", "n_heads", "encoder_attention_heads", "decoder_attention_heads")
HEAD_SIZES = ("head_dim", "d_kv")
FEED_FORWARDS = ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim", "d_ff", "n_inner")
ENCODER_DEPTHS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers")
DEPTHS = (*ENCODER_DEPTHS, "num_decoder_layers", "decoder_layers")
VOCABULARIES = ("vocab_size", "decoder_vocab_size")
SIDE_WIDTHS = ("embedding_size", "word_embed_proj_dim", "projection_dim")
KEY_HEADS = "num_key_value_heads"


def smaller(published: Sizes) -> Sizes:
    """The sizes among a config's arguments, scaled down; what is no size is not in it. Configs within it as well.

    A third of the heads, half of a head's size (so a sixth of the width), a twelfth of the feed-forward, a thirtieth of
    the vocabulary, and the square root of the depth: 12 layers become 2, 24 become 3. Query heads per key head stay.
    """
    small: Sizes = {key: smaller(value) for key, value in published.items() if isinstance(value, dict)}
    small = {key: value for key, value in small.items() if value}
    heads = {key: _heads(published[key], published.get(KEY_HEADS)) for key in HEADS if _sized(published, key)}
    small |= heads
    if _sized(published, KEY_HEADS):
        small[KEY_HEADS] = max(1, round(published[KEY_HEADS] / 3))
    small |= {key: max(1, published[key] // 2) for key in (*HEAD_SIZES, "rotary_dim") if _sized(published, key)}
    width = next((key for key in WIDTHS if _sized(published, key)), None)
    if width:
        small[width] = _width(published, width, next(iter(heads), None), small)
    for key in SIDE_WIDTHS:
        if _sized(published, key):
            same = width is not None and published[key] == published[width]
            small[key] = small[width] if width and same else _up(published[key] / 8, 16)
    small |= {key: _up(published[key] / 12, 32) for key in FEED_FORWARDS if _sized(published, key)}
    small |= {key: max(1, round(math.sqrt(0.3 * published[key]))) for key in DEPTHS if _sized(published, key)}
    small |= {key: max(published[key] // 30, min(published[key], 500)) for key in VOCABULARIES if key in published}
    return small


def _sized(sizes: Sizes, key: str) -> bool:
    return isinstance(sizes.get(key), int)


def _heads(heads: int, key_heads: int | None) -> int:
    if key_heads is None:
        return max(1, round(heads / 3))
    return max(1, round(key_heads / 3)) * (heads // key_heads)


def _width(published: Sizes, width: str, heads: str | None, small: Sizes) -> int:
    """As many heads of their size; where a config's heads are not as wide together as its layers, a sixth."""
    wide: int = published[width]
    if heads is None:
        return _up(wide / 6, 32)
    size = next((key for key in HEAD_SIZES if _sized(published, key)), None)
    if size and published[size] * published[heads] != wide:
        return _up(wide / 6, 32)
    head: int = small[size] if size else max(1, wide // published[heads] // 2)
    return int(small[heads]) * head


def _up(size: float, step: int) -> int:
    return math.ceil(size / step) * step
