# labels: name::m2m_100 author::facebook task::translation domain::nlp license::mit
"""M2M100 418M: between any two of a hundred languages.

Sizes of https://huggingface.co/facebook/m2m100_418M; paper https://arxiv.org/abs/2010.11125
"""

from proveout.parser import parse

import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration

PUBLISHED = dict(
    vocab_size=128112,
    d_model=1024,
    encoder_layers=12,
    decoder_layers=12,
    encoder_ffn_dim=4096,
    decoder_ffn_dim=4096,
    encoder_attention_heads=16,
    decoder_attention_heads=16,
    max_position_embeddings=1024,
    scale_embedding=True,
    activation_function="relu",
)
SMALL = dict(
    vocab_size=1000,
    d_model=128,
    encoder_layers=2,
    decoder_layers=2,
    encoder_ffn_dim=256,
    decoder_ffn_dim=256,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = M2M100Config(**PUBLISHED | (SMALL if args.small else {}))
model = M2M100ForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
