# labels: name::wav2vec2_conformer author::facebook task::feature-extraction domain::audio license::apache-2.0
"""wav2vec 2.0 conformer, large, with relative positions: convolutions inside each layer.

Sizes of https://huggingface.co/facebook/wav2vec2-conformer-rel-pos-large; paper https://arxiv.org/abs/2010.05171
"""

from proveout.parser import parse

import torch
from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel

PUBLISHED = dict(
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    conv_dim=[512, 512, 512, 512, 512, 512, 512],
    conv_stride=[5, 2, 2, 2, 2, 2, 2],
    conv_kernel=[10, 3, 3, 3, 3, 2, 2],
    conv_bias=True,
    feat_extract_norm="layer",
    position_embeddings_type="relative",
    conv_depthwise_kernel_size=31,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    conv_dim=[32, 32, 32, 32, 32, 32, 32],
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
    conv_depthwise_kernel_size=7,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_audio_seq_length"])
batch_size, max_audio_seq_length = args

config = Wav2Vec2ConformerConfig(**PUBLISHED | (SMALL if args.small else {}))
model = Wav2Vec2ConformerModel(config).eval()
inputs = {
    "input_values": torch.randn(batch_size, max_audio_seq_length),
}

with torch.no_grad():
    model(**inputs)
