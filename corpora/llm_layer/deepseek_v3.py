# labels: name::deepseek_v3_layer author::deepseek-ai task::text-generation domain::nlp license::mit
"""One decoder layer of DeepSeek-V3 at full width: one of its first three, dense, with multi-head latent attention.

Twice: prefill, on max_seq_length tokens, and decoding, on one token after them.
Sizes of https://huggingface.co/deepseek-ai/DeepSeek-V3; paper https://arxiv.org/abs/2412.19437
"""

from proveout.parser import parse

import torch
from _layer import ONE_LAYER, DecoderLayer
from transformers import DeepseekV3Config, DeepseekV3Model

PUBLISHED = dict(
    hidden_size=7168,
    intermediate_size=18432,
    num_attention_heads=128,
    num_key_value_heads=128,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
    first_k_dense_replace=3,
    rms_norm_eps=1e-06,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    max_position_embeddings=4096,
)
SMALL = dict(
    hidden_size=128,
    intermediate_size=256,
    num_attention_heads=4,
    num_key_value_heads=4,
    q_lora_rank=64,
    kv_lora_rank=32,
    qk_rope_head_dim=16,
    qk_nope_head_dim=32,
    v_head_dim=32,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = DeepseekV3Config(**PUBLISHED | (SMALL if args.small else {}) | ONE_LAYER)
layer = DecoderLayer(DeepseekV3Model(config)).eval()
prompt = torch.randn(batch_size, max_seq_length, config.hidden_size)
token = torch.randn(batch_size, 1, config.hidden_size)

with torch.no_grad():
    _, keys, values = layer(prompt)
    layer(token, keys, values)
