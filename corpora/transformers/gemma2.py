# labels: name::gemma2 author::google task::text-generation domain::nlp license::gemma
"""Gemma 2 2B: norms before and after each block, soft-capped logits, every other layer local.

Sizes of https://huggingface.co/google/gemma-2-2b; paper https://arxiv.org/abs/2408.00118
"""

from proveout.parser import parse

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

PUBLISHED = dict(
    vocab_size=256000,
    hidden_size=2304,
    num_hidden_layers=26,
    num_attention_heads=8,
    intermediate_size=9216,
    num_key_value_heads=4,
    head_dim=256,
    query_pre_attn_scalar=256,
    sliding_window=4096,
    attn_logit_softcapping=50.0,
    final_logit_softcapping=30.0,
    max_position_embeddings=8192,
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
