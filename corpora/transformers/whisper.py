# labels: name::whisper author::openai task::automatic-speech-recognition domain::audio license::apache-2.0
"""Whisper tiny: thirty seconds of sound, 80 mel bands by 3000 frames, into text.

Sizes of https://huggingface.co/openai/whisper-tiny; paper https://arxiv.org/abs/2212.04356
"""

from proveout.parser import parse

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

PUBLISHED = dict(
    vocab_size=51865,
    num_mel_bins=80,
    d_model=384,
    encoder_layers=4,
    decoder_layers=4,
    encoder_attention_heads=6,
    decoder_attention_heads=6,
    encoder_ffn_dim=1536,
    decoder_ffn_dim=1536,
    max_source_positions=1500,
    max_target_positions=448,
)
SMALL = dict(
    vocab_size=1000,
    num_mel_bins=20,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    max_source_positions=50,
    max_target_positions=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = WhisperConfig(**PUBLISHED | (SMALL if args.small else {}))
model = WhisperForConditionalGeneration(config).eval()
inputs = {
    "input_features": torch.randn(batch_size, config.num_mel_bins, 2 * config.max_source_positions),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
