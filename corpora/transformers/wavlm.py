# labels: name::wavlm author::microsoft task::feature-extraction domain::audio license::other
"""WavLM base: gated relative position biases.

Sizes of https://huggingface.co/microsoft/wavlm-base; paper https://arxiv.org/abs/2110.13900
"""

from proveout.parser import parse

import torch
from transformers import WavLMConfig, WavLMModel

PUBLISHED = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    conv_dim=[512, 512, 512, 512, 512, 512, 512],
    conv_stride=[5, 2, 2, 2, 2, 2, 2],
    conv_kernel=[10, 3, 3, 3, 3, 2, 2],
    feat_extract_norm="group",
    num_buckets=320,
    max_bucket_distance=800,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    conv_dim=[32, 32, 32, 32, 32, 32, 32],
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_audio_seq_length"])
batch_size, max_audio_seq_length = args

config = WavLMConfig(**PUBLISHED | (SMALL if args.small else {}))
model = WavLMModel(config).eval()
inputs = {
    "input_values": torch.randn(batch_size, max_audio_seq_length),
}

with torch.no_grad():
    model(**inputs)
