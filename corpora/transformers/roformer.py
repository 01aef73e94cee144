# labels: name::roformer author::junnyu task::fill-mask domain::nlp license::apache-2.0
"""RoFormer base, Chinese: the encoder that introduced rotary positions.

Sizes of https://huggingface.co/junnyu/roformer_chinese_base; paper https://arxiv.org/abs/2104.09864
"""

from proveout.parser import parse

import torch
from transformers import RoFormerConfig, RoFormerForMaskedLM

PUBLISHED = dict(
    vocab_size=50000,
    embedding_size=768,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=1536,
    rotary_value=False,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    embedding_size=128,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = RoFormerConfig(**PUBLISHED | (SMALL if args.small else {}))
model = RoFormerForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
