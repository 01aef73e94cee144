# labels: name::mixtral_8x7b_layer author::mistralai task::text-generation domain::nlp license::apache-2.0
"""One decoder layer of Mixtral 8x7B at full width: two of eight experts for each token, 5.8 GB in float32.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/mistralai/Mixtral-8x7B-v0.1; paper https://arxiv.org/abs/2401.04088
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import MixtralConfig, MixtralModel

PUBLISHED = dict(
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    rms_norm_eps=1e-05,
    num_local_experts=8,
    num_experts_per_tok=2,
    sliding_window=None,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    max_position_embeddings=32768,
)
SMALL = dict(
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_local_experts=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = MixtralConfig(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(MixtralModel(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
