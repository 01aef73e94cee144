# labels: name::layoutlmv3 author::microsoft task::token-classification domain::multimodal license::cc-by-nc-sa-4.0
"""LayoutLMv3 base: words, their places on the page, and the page itself as patches.

Sizes of https://huggingface.co/microsoft/layoutlmv3-base; paper https://arxiv.org/abs/2204.08387
"""

from proveout.parser import parse

import torch
from transformers import LayoutLMv3Config, LayoutLMv3ForTokenClassification

PUBLISHED = dict(
    vocab_size=50265,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=514,
    type_vocab_size=1,
    input_size=224,
    patch_size=16,
    num_labels=7,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    input_size=64,
    coordinate_size=16,
    shape_size=32,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = LayoutLMv3Config(**PUBLISHED | (SMALL if args.small else {}))
model = LayoutLMv3ForTokenClassification(config).eval()
corners = torch.randint(0, 500, (batch_size, max_seq_length, 2))
sizes = torch.randint(1, 500, (batch_size, max_seq_length, 2))
boxes = torch.cat([corners, corners + sizes], dim=-1)  # left, top, right, bottom, of a page 1000 by 1000
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "bbox": boxes,
    "pixel_values": torch.randn(batch_size, 3, config.input_size, config.input_size),
}

with torch.no_grad():
    model(**inputs)
