# labels: name::ctrl author::salesforce task::text-generation domain::nlp license::bsd-3-clause
"""CTRL: 1.6 billion parameters, steered by control codes.

Sizes of https://huggingface.co/Salesforce/ctrl; paper https://arxiv.org/abs/1909.05858
"""

from proveout.parser import parse

import torch
from transformers import CTRLConfig, CTRLLMHeadModel

PUBLISHED = dict(
    vocab_size=246534,
    n_positions=256,
    n_embd=1280,
    dff=8192,
    n_layer=48,
    n_head=16,
)
SMALL = dict(
    vocab_size=1000,
    n_embd=128,
    n_layer=2,
    n_head=4,
    n_positions=64,
    dff=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = CTRLConfig(**PUBLISHED | (SMALL if args.small else {}))
model = CTRLLMHeadModel(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
