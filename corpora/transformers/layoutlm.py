# labels: name::layoutlm author::microsoft task::token-classification domain::nlp license::mit
"""LayoutLM base: BERT over words and where they stand on the page.

Sizes of https://huggingface.co/microsoft/layoutlm-base-uncased; paper https://arxiv.org/abs/1912.13318
"""

from proveout.parser import parse

import torch
from transformers import LayoutLMConfig, LayoutLMForTokenClassification

PUBLISHED = dict(
    vocab_size=30522,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_2d_position_embeddings=1024,
    num_labels=7,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = LayoutLMConfig(**PUBLISHED | (SMALL if args.small else {}))
model = LayoutLMForTokenClassification(config).eval()
corners = torch.randint(0, 500, (batch_size, max_seq_length, 2))
sizes = torch.randint(1, 500, (batch_size, max_seq_length, 2))
boxes = torch.cat([corners, corners + sizes], dim=-1)  # left, top, right, bottom, of a page 1000 by 1000
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "bbox": boxes,
}

with torch.no_grad():
    model(**inputs)
