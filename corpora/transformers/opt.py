# labels: name::opt author::facebook task::text-generation domain::nlp license::other
"""OPT 125M.

Sizes of https://huggingface.co/facebook/opt-125m; paper https://arxiv.org/abs/2205.01068
"""

from proveout.parser import parse

import torch
from transformers import OPTConfig, OPTForCausalLM

PUBLISHED = dict(
    vocab_size=50272,
    hidden_size=768,
    num_hidden_layers=12,
    ffn_dim=3072,
    num_attention_heads=12,
    max_position_embeddings=2048,
    word_embed_proj_dim=768,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    ffn_dim=256,
    num_attention_heads=4,
    max_position_embeddings=64,
    word_embed_proj_dim=128,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = OPTConfig(**PUBLISHED | (SMALL if args.small else {}))
model = OPTForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
