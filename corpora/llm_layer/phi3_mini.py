# labels: name::phi3_mini_layer author::microsoft task::text-generation domain::nlp license::mit
"""One decoder layer of Phi-3 mini at full width: queries, keys and values, gate and up, each from one matrix.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/microsoft/Phi-3-mini-4k-instruct; paper https://arxiv.org/abs/2404.14219
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import Phi3Config, Phi3Model

PUBLISHED = dict(
    hidden_size=3072,
    intermediate_size=8192,
    num_attention_heads=32,
    num_key_value_heads=32,
    rms_norm_eps=1e-05,
    sliding_window=2047,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    max_position_embeddings=4096,
)
SMALL = dict(
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Phi3Config(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(Phi3Model(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
