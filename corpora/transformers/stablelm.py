# labels: name::stablelm author::stabilityai task::text-generation domain::nlp license::other
"""StableLM 2 1.6B: a quarter of each head rotary, layer normalisation with biases.

Sizes of https://huggingface.co/stabilityai/stablelm-2-1_6b; paper https://arxiv.org/abs/2402.17834
"""

from proveout.parser import parse

import torch
from transformers import StableLmConfig, StableLmForCausalLM

PUBLISHED = dict(
    vocab_size=100352,
    hidden_size=2048,
    num_hidden_layers=24,
    num_attention_heads=32,
    intermediate_size=5632,
    num_key_value_heads=32,
    max_position_embeddings=4096,
    use_qkv_bias=True,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = StableLmConfig(**PUBLISHED | (SMALL if args.small else {}))
model = StableLmForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
