# labels: name::xlm author::facebook task::fill-mask domain::nlp license::cc-by-nc-4.0
"""XLM for English, 2048 wide, trained by masked language modelling.

Sizes of https://huggingface.co/FacebookAI/xlm-mlm-en-2048; paper https://arxiv.org/abs/1901.07291
"""

from proveout.parser import parse

import torch
from transformers import XLMConfig, XLMWithLMHeadModel

PUBLISHED = dict(
    vocab_size=30145,
    emb_dim=2048,
    n_layers=12,
    n_heads=16,
    n_langs=1,
    max_position_embeddings=512,
)
SMALL = dict(
    vocab_size=1000,
    emb_dim=128,
    n_layers=2,
    n_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = XLMConfig(**PUBLISHED | (SMALL if args.small else {}))
model = XLMWithLMHeadModel(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
