# labels: name::gemma3_12b_layer author::google task::text-generation domain::nlp license::gemma
"""One decoder layer of Gemma 3 12B at full width: a local one, with a window of 1024 tokens.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/google/gemma-3-12b-pt; paper https://arxiv.org/abs/2503.19786
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import Gemma3TextConfig, Gemma3TextModel

PUBLISHED = dict(
    hidden_size=3840,
    intermediate_size=15360,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=256,
    query_pre_attn_scalar=256,
    sliding_window=1024,
    max_position_embeddings=131072,
)
SMALL = dict(
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    query_pre_attn_scalar=32,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Gemma3TextConfig(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(Gemma3TextModel(config), layer_type="sliding_attention").eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
