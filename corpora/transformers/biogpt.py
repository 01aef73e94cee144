# labels: name::biogpt author::microsoft task::text-generation domain::nlp license::mit
"""BioGPT: written from biomedical literature.

Sizes of https://huggingface.co/microsoft/biogpt; paper https://arxiv.org/abs/2210.10341
"""

from proveout.parser import parse

import torch
from transformers import BioGptConfig, BioGptForCausalLM

PUBLISHED = dict(
    vocab_size=42384,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    max_position_embeddings=1024,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = BioGptConfig(**PUBLISHED | (SMALL if args.small else {}))
model = BioGptForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
