# labels: name::gpt_neox author::eleutherai task::text-generation domain::nlp license::apache-2.0
"""Pythia 160M, of GPT-NeoX's architecture: attention and feed-forward in parallel, a quarter of each head rotary.

Sizes of https://huggingface.co/EleutherAI/pythia-160m; paper https://arxiv.org/abs/2304.01373
"""

from proveout.parser import parse

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

PUBLISHED = dict(
    vocab_size=50304,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=2048,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    use_parallel_residual=True,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = GPTNeoXConfig(**PUBLISHED | (SMALL if args.small else {}))
model = GPTNeoXForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
