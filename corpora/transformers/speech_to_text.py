# labels: name::speech_to_text author::facebook task::automatic-speech-recognition domain::audio license::mit
"""Speech to Text, small, on LibriSpeech: two gated convolutions before the encoder.

Sizes of https://huggingface.co/facebook/s2t-small-librispeech-asr; paper https://arxiv.org/abs/2010.05171
"""

from proveout.parser import parse

import torch
from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

PUBLISHED = dict(
    vocab_size=10000,
    d_model=256,
    encoder_layers=12,
    decoder_layers=6,
    encoder_ffn_dim=2048,
    decoder_ffn_dim=2048,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    conv_channels=1024,
    conv_kernel_sizes=[5, 5],
    input_feat_per_channel=80,
)
SMALL = dict(
    vocab_size=1000,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    conv_channels=64,
    input_feat_per_channel=20,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Speech2TextConfig(**PUBLISHED | (SMALL if args.small else {}))
model = Speech2TextForConditionalGeneration(config).eval()
frames = 64 if args.small else 584  # of 10 ms each
inputs = {
    "input_features": torch.randn(batch_size, frames, config.input_feat_per_channel),
    "attention_mask": torch.ones(batch_size, frames, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
