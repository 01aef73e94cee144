# labels: name::trocr author::microsoft task::image-to-text domain::multimodal license::mit
"""TrOCR base: reads a line of handwriting, ViT before, a text decoder after.

Sizes of https://huggingface.co/microsoft/trocr-base-handwritten; paper https://arxiv.org/abs/2109.10282
"""

from proveout.parser import parse

import torch
from transformers import TrOCRConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel, ViTConfig

ENCODER = dict(
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    image_size=384,
    patch_size=16,
    qkv_bias=False,
)
ENCODER_SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, image_size=64)
DECODER = dict(
    vocab_size=50265,
    d_model=1024,
    decoder_layers=12,
    decoder_attention_heads=16,
    decoder_ffn_dim=4096,
    cross_attention_hidden_size=768,
    max_position_embeddings=512,
)
DECODER_SMALL = dict(
    vocab_size=1000,
    d_model=128,
    decoder_layers=2,
    decoder_attention_heads=4,
    decoder_ffn_dim=256,
    cross_attention_hidden_size=64,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

encoder = ViTConfig(**ENCODER | (ENCODER_SMALL if args.small else {}))
decoder = TrOCRConfig(**DECODER | (DECODER_SMALL if args.small else {}))
model = VisionEncoderDecoderModel(VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)).eval()
inputs = {
    "pixel_values": torch.randn(batch_size, 3, encoder.image_size, encoder.image_size),
    "decoder_input_ids": torch.randint(3, decoder.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
