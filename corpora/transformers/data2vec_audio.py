# labels: name::data2vec_audio author::facebook task::automatic-speech-recognition domain::audio license::apache-2.0
"""data2vec audio base, 960 h: five convolutions make the positions.

Sizes of https://huggingface.co/facebook/data2vec-audio-base-960h; paper https://arxiv.org/abs/2202.03555
"""

from proveout.parser import parse

import torch
from transformers import Data2VecAudioConfig, Data2VecAudioForCTC

PUBLISHED = dict(
    vocab_size=32,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    conv_dim=[512, 512, 512, 512, 512, 512, 512],
    conv_stride=[5, 2, 2, 2, 2, 2, 2],
    conv_kernel=[10, 3, 3, 3, 3, 2, 2],
    conv_pos_kernel_size=19,
    num_conv_pos_embeddings=5,
    num_conv_pos_embedding_groups=16,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    conv_dim=[32, 32, 32, 32, 32, 32, 32],
    num_conv_pos_embeddings=2,
    num_conv_pos_embedding_groups=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_audio_seq_length"])
batch_size, max_audio_seq_length = args

config = Data2VecAudioConfig(**PUBLISHED | (SMALL if args.small else {}))
model = Data2VecAudioForCTC(config).eval()
inputs = {
    "input_values": torch.randn(batch_size, max_audio_seq_length),
}

with torch.no_grad():
    model(**inputs)
