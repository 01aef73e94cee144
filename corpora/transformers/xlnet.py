# labels: name::xlnet author::google task::text-generation domain::nlp license::mit
"""XLNet base: two-stream permutation language model with Transformer-XL's relative positions.

Sizes of https://huggingface.co/xlnet/xlnet-base-cased; paper https://arxiv.org/abs/1906.08237
"""

from proveout.parser import parse

import torch
from transformers import XLNetConfig, XLNetLMHeadModel

PUBLISHED = dict(
    vocab_size=32000,
    d_model=768,
    n_layer=12,
    n_head=12,
    d_inner=3072,
)
SMALL = dict(
    vocab_size=1000,
    d_model=128,
    n_layer=2,
    n_head=4,
    d_inner=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = XLNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = XLNetLMHeadModel(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_mems": False,
}

with torch.no_grad():
    model(**inputs)
