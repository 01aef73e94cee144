# labels: name::granitemoe author::ibm task::text-generation domain::nlp license::apache-2.0
"""Granite 3.0 1B-A400M: a mixture of 32 experts, eight to a token.

Sizes of https://huggingface.co/ibm-granite/granite-3.0-1b-a400m-base
"""

from proveout.parser import parse

import torch
from transformers import GraniteMoeConfig, GraniteMoeForCausalLM

PUBLISHED = dict(
    vocab_size=49155,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=512,
    num_key_value_heads=8,
    num_local_experts=32,
    num_experts_per_tok=8,
    max_position_embeddings=4096,
    embedding_multiplier=12.0,
    logits_scaling=6.0,
    residual_multiplier=0.22,
    attention_multiplier=0.015625,
    tie_word_embeddings=True,
    bos_token_id=0,
    eos_token_id=0,
    pad_token_id=0,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    num_key_value_heads=2,
    num_local_experts=4,
    num_experts_per_tok=2,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = GraniteMoeConfig(**PUBLISHED | (SMALL if args.small else {}))
model = GraniteMoeForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
