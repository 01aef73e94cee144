# labels: name::gemma_3_1b author::google task::text-generation domain::nlp license::gemma
"""Gemma 3 1B: five layers in a window to one without, one key head for all queries.

Sizes of https://huggingface.co/google/gemma-3-1b-pt; paper https://arxiv.org/abs/2503.19786
Plan it without its weights: proveout generate llm/gemma_3_1b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

PUBLISHED = dict(
    vocab_size=262144,
    hidden_size=1152,
    num_hidden_layers=26,
    num_attention_heads=4,
    intermediate_size=6912,
    num_key_value_heads=1,
    head_dim=256,
    query_pre_attn_scalar=256,
    sliding_window=512,
    max_position_embeddings=32768,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=1,
    head_dim=32,
    query_pre_attn_scalar=32,
    sliding_window=16,
    layer_types=["sliding_attention", "full_attention"],
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Gemma3TextConfig(**PUBLISHED | (SMALL if args.small else {}))
model = Gemma3ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
