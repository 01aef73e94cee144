# labels: name::sew author::asapp task::feature-extraction domain::audio license::apache-2.0
"""SEW tiny: the sequence is squeezed before the transformer and stretched after it.

Sizes of https://huggingface.co/asapp/sew-tiny-100k; paper https://arxiv.org/abs/2109.06870
"""

from proveout.parser import parse

import torch
from transformers import SEWConfig, SEWModel

PUBLISHED = dict(
    hidden_size=512,
    num_hidden_layers=12,
    num_attention_heads=8,
    intermediate_size=2048,
    squeeze_factor=2,
    conv_dim=[64, 128, 128, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512],
    conv_stride=[5, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1],
    conv_kernel=[10, 3, 1, 3, 1, 3, 1, 3, 1, 2, 1, 2, 1],
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    conv_dim=[16, 16, 16, 16, 32, 32, 32, 32, 32, 32, 32, 32, 32],
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_audio_seq_length"])
batch_size, max_audio_seq_length = args

config = SEWConfig(**PUBLISHED | (SMALL if args.small else {}))
model = SEWModel(config).eval()
inputs = {
    "input_values": torch.randn(batch_size, max_audio_seq_length),
}

with torch.no_grad():
    model(**inputs)
