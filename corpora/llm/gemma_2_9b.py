# labels: name::gemma_2_9b author::google task::text-generation domain::nlp license::gemma
"""Gemma 2 9B: scores and logits with soft caps, every other layer in a window. 37 GB in float32.

Sizes of https://huggingface.co/google/gemma-2-9b; paper https://arxiv.org/abs/2408.00118
Plan it without its weights: proveout generate llm/gemma_2_9b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

PUBLISHED = dict(
    vocab_size=256000,
    hidden_size=3584,
    num_hidden_layers=42,
    num_attention_heads=16,
    intermediate_size=14336,
    num_key_value_heads=8,
    head_dim=256,
    query_pre_attn_scalar=256,
    sliding_window=4096,
    attn_logit_softcapping=50.0,
    final_logit_softcapping=30.0,
    max_position_embeddings=8192,
    attn_implementation="eager",
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=2,
    head_dim=32,
    query_pre_attn_scalar=32,
    sliding_window=16,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Gemma2Config(**PUBLISHED | (SMALL if args.small else {}))
model = Gemma2ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
