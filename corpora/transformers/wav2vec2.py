# labels: name::wav2vec2 author::facebook task::automatic-speech-recognition domain::audio license::apache-2.0
"""wav2vec 2.0 base, 960 h: letters from raw sound.

Sizes of https://huggingface.co/facebook/wav2vec2-base-960h; paper https://arxiv.org/abs/2006.11477
"""

from proveout.parser import parse

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

PUBLISHED = dict(
    vocab_size=32,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    conv_dim=[512, 512, 512, 512, 512, 512, 512],
    conv_stride=[5, 2, 2, 2, 2, 2, 2],
    conv_kernel=[10, 3, 3, 3, 3, 2, 2],
    feat_extract_norm="group",
    num_conv_pos_embeddings=128,
    num_conv_pos_embedding_groups=16,
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

config = Wav2Vec2Config(**PUBLISHED | (SMALL if args.small else {}))
model = Wav2Vec2ForCTC(config).eval()
inputs = {
    "input_values": torch.randn(batch_size, max_audio_seq_length),
}

with torch.no_grad():
    model(**inputs)
