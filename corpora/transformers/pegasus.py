# labels: name::pegasus author::google task::summarization domain::nlp license::apache-2.0
"""PEGASUS large: pre-trained on gap sentences, for summaries.

Sizes of https://huggingface.co/google/pegasus-large; paper https://arxiv.org/abs/1912.08777
"""

from proveout.parser import parse

import torch
from transformers import PegasusConfig, PegasusForConditionalGeneration

PUBLISHED = dict(
    vocab_size=96103,
    d_model=1024,
    encoder_layers=16,
    decoder_layers=16,
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

config = PegasusConfig(**PUBLISHED | (SMALL if args.small else {}))
model = PegasusForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
