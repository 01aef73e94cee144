# labels: name::olmo author::allenai task::text-generation domain::nlp license::apache-2.0
"""OLMo 1B: layer normalisation without weights.

Sizes of https://huggingface.co/allenai/OLMo-1B-hf; paper https://arxiv.org/abs/2402.00838
"""

from proveout.parser import parse

import torch
from transformers import OlmoConfig, OlmoForCausalLM

PUBLISHED = dict(
    vocab_size=50304,
    hidden_size=2048,
    num_hidden_layers=16,
    num_attention_heads=16,
    intermediate_size=8192,
    num_key_value_heads=16,
    max_position_embeddings=2048,
    tie_word_embeddings=True,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=4,
    eos_token_id=2,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = OlmoConfig(**PUBLISHED | (SMALL if args.small else {}))
model = OlmoForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
