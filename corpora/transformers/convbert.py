# labels: name::convbert author::yitutech task::fill-mask domain::nlp license::mit
"""ConvBERT base: half of the heads are replaced by span-based dynamic convolutions.

Sizes of https://huggingface.co/YituTech/conv-bert-base; paper https://arxiv.org/abs/2008.02496
"""

from proveout.parser import parse

import torch
from transformers import ConvBertConfig, ConvBertForMaskedLM

PUBLISHED = dict(
    vocab_size=30522,
    embedding_size=768,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    head_ratio=2,
    conv_kernel_size=9,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    embedding_size=128,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = ConvBertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ConvBertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
