# labels: name::qwen3_8b_layer author::qwen task::text-generation domain::nlp license::apache-2.0
"""One decoder layer of Qwen3 8B at full width: queries and keys are normalised head by head.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/Qwen/Qwen3-8B; paper https://arxiv.org/abs/2505.09388
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import Qwen3Config, Qwen3Model

PUBLISHED = dict(
    hidden_size=4096,
    intermediate_size=12288,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    rms_norm_eps=1e-06,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    max_position_embeddings=40960,
)
SMALL = dict(
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Qwen3Config(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(Qwen3Model(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
