# labels: name::audio_spectrogram_transformer author::mit task::audio-classification domain::audio license::bsd-3-clause
"""AST on AudioSet: ten seconds of sound as a picture, in overlapping patches.

Sizes of https://huggingface.co/MIT/ast-finetuned-audioset-10-10-0.4593; paper https://arxiv.org/abs/2104.01778
"""

from proveout.parser import parse

import torch
from transformers import ASTConfig, ASTForAudioClassification

PUBLISHED = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    patch_size=16,
    frequency_stride=10,
    time_stride=10,
    max_length=1024,
    num_mel_bins=128,
    num_labels=527,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    max_length=64,
    num_mel_bins=32,
    num_labels=10,
)

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = ASTConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ASTForAudioClassification(config).eval()
inputs = {
    "input_values": torch.randn(batch_size, config.max_length, config.num_mel_bins),
}

with torch.no_grad():
    model(**inputs)
