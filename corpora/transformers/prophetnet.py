# labels: name::prophetnet author::microsoft task::summarization domain::nlp license::mit
"""ProphetNet large: predicts the next two tokens at once.

Sizes of https://huggingface.co/microsoft/prophetnet-large-uncased; paper https://arxiv.org/abs/2001.04063
"""

from proveout.parser import parse

import torch
from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration

PUBLISHED = dict(
    vocab_size=30522,
    hidden_size=1024,
    num_encoder_layers=12,
    num_decoder_layers=12,
    encoder_ffn_dim=4096,
    decoder_ffn_dim=4096,
    num_encoder_attention_heads=16,
    num_decoder_attention_heads=16,
    ngram=2,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_encoder_layers=2,
    num_decoder_layers=2,
    encoder_ffn_dim=256,
    decoder_ffn_dim=256,
    num_encoder_attention_heads=4,
    num_decoder_attention_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = ProphetNetConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ProphetNetForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
