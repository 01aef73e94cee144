# labels: name::mistral_7b_layer author::mistralai task::text-generation domain::nlp license::apache-2.0
"""One decoder layer of Mistral 7B v0.3 at full width.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/mistralai/Mistral-7B-v0.3; paper https://arxiv.org/abs/2310.06825
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import MistralConfig, MistralModel

PUBLISHED = dict(
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    rms_norm_eps=1e-05,
    sliding_window=None,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    max_position_embeddings=32768,
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

config = MistralConfig(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(MistralModel(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
