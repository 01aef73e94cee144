# labels: name::moonshine author::usefulsensors task::automatic-speech-recognition domain::audio license::mit
"""Moonshine tiny: speech recognition on small devices; raw sound in, rotary positions.

Sizes of https://huggingface.co/UsefulSensors/moonshine-tiny; paper https://arxiv.org/abs/2410.15608
"""

from proveout.parser import parse

import torch
from transformers import MoonshineConfig, MoonshineForConditionalGeneration

PUBLISHED = dict(
    vocab_size=32768,
    hidden_size=288,
    intermediate_size=1152,
    encoder_num_hidden_layers=6,
    decoder_num_hidden_layers=6,
    encoder_num_attention_heads=8,
    decoder_num_attention_heads=8,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    intermediate_size=256,
    encoder_num_hidden_layers=2,
    decoder_num_hidden_layers=2,
    encoder_num_attention_heads=4,
    decoder_num_attention_heads=4,
    encoder_num_key_value_heads=4,
    decoder_num_key_value_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_audio_seq_length"])
batch_size, max_audio_seq_length = args

config = MoonshineConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MoonshineForConditionalGeneration(config).eval()
inputs = {
    "input_values": torch.randn(batch_size, max_audio_seq_length),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, 16)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
