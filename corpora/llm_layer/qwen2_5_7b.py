# labels: name::qwen2_5_7b_layer author::qwen task::text-generation domain::nlp license::apache-2.0
"""One decoder layer of Qwen2.5 7B at full width: biases on queries, keys and values.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/Qwen/Qwen2.5-7B; paper https://arxiv.org/abs/2412.15115
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import Qwen2Config, Qwen2Model

PUBLISHED = dict(
    hidden_size=3584,
    intermediate_size=18944,
    num_attention_heads=28,
    num_key_value_heads=4,
    rms_norm_eps=1e-06,
    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    max_position_embeddings=131072,
)
SMALL = dict(
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=2,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Qwen2Config(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(Qwen2Model(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
