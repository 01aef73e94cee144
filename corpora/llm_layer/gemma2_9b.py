# labels: name::gemma2_9b_layer author::google task::text-generation domain::nlp license::gemma
"""One decoder layer of Gemma 2 9B at full width: norms before and after each block, soft-capped attention.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/google/gemma-2-9b; paper https://arxiv.org/abs/2408.00118
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import Gemma2Config, Gemma2Model

PUBLISHED = dict(
    hidden_size=3584,
    intermediate_size=14336,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=256,
    query_pre_attn_scalar=256,
    attn_logit_softcapping=50.0,
    sliding_window=4096,
    attn_implementation="eager",
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

config = Gemma2Config(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(Gemma2Model(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
