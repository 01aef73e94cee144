# labels: name::gpt_neo author::eleutherai task::text-generation domain::nlp license::mit
"""GPT-Neo 125M: global and local attention take turns.

Sizes of https://huggingface.co/EleutherAI/gpt-neo-125m; https://doi.org/10.5281/zenodo.5297715
"""

from proveout.parser import parse

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

PUBLISHED = dict(
    vocab_size=50257,
    max_position_embeddings=2048,
    hidden_size=768,
    num_layers=12,
    num_heads=12,
    attention_types=[[["global", "local"], 6]],
    window_size=256,
)
SMALL = dict(
    vocab_size=1000,
    bos_token_id=1,
    eos_token_id=2,
    max_position_embeddings=64,
    hidden_size=128,
    num_layers=2,
    num_heads=4,
    attention_types=[[["global", "local"], 1]],
    window_size=16,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = GPTNeoConfig(**PUBLISHED | (SMALL if args.small else {}))
model = GPTNeoForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
