# labels: name::canine author::google task::feature-extraction domain::nlp license::apache-2.0
"""CANINE-s: reads characters, hashed, and downsamples them fourfold before its deep encoder.

Sizes of https://huggingface.co/google/canine-s; paper https://arxiv.org/abs/2103.06874
"""

from proveout.parser import parse

import torch
from transformers import CanineConfig, CanineModel

PUBLISHED = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    num_hash_functions=8,
    num_hash_buckets=16384,
    downsampling_rate=4,
    upsampling_kernel_size=4,
    local_transformer_stride=128,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_hash_buckets=256,
    local_transformer_stride=16,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = CanineConfig(**PUBLISHED | (SMALL if args.small else {}))
model = CanineModel(config).eval()
inputs = {
    "input_ids": torch.randint(32, 0x10FFFF, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
