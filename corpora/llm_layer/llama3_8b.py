# labels: name::llama3_8b_layer author::meta task::text-generation domain::nlp license::llama3
"""One decoder layer of Llama 3 8B at full width: four query heads to a key head.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/meta-llama/Meta-Llama-3-8B; paper https://arxiv.org/abs/2407.21783
"""

from proveout.parser import parse, smaller

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import LlamaConfig, LlamaModel

PUBLISHED = dict(
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_key_value_heads=8,
    rms_norm_eps=1e-05,
    rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    max_position_embeddings=8192,
)
SMALL = smaller(PUBLISHED)

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
