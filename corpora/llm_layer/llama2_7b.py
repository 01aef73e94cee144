# labels: name::llama2_7b_layer author::meta task::text-generation domain::nlp license::llama2
"""One decoder layer of Llama 2 7B at full width: as many key heads as queries.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/meta-llama/Llama-2-7b-hf; paper https://arxiv.org/abs/2307.09288
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import LlamaConfig, LlamaModel

PUBLISHED = dict(
    hidden_size=4096,
    intermediate_size=11008,
    num_attention_heads=32,
    num_key_value_heads=32,
    rms_norm_eps=1e-05,
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

config = LlamaConfig(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(LlamaModel(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
