# labels: name::bloom author::bigscience task::text-generation domain::nlp license::bigscience-bloom-rail-1.0
"""BLOOM 560M: 46 languages, positions by ALiBi's slopes.

Sizes of https://huggingface.co/bigscience/bloom-560m; paper https://arxiv.org/abs/2211.05100
"""

from proveout.parser import parse

import torch
from transformers import BloomConfig, BloomForCausalLM

PUBLISHED = dict(
    vocab_size=250880,
    hidden_size=1024,
    n_layer=24,
    n_head=16,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    n_layer=2,
    n_head=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = BloomConfig(**PUBLISHED | (SMALL if args.small else {}))
model = BloomForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
