# labels: name::mt5 author::google task::translation domain::nlp license::apache-2.0
"""mT5 small: T5 in 101 languages, with gated feed-forwards.

Sizes of https://huggingface.co/google/mt5-small; paper https://arxiv.org/abs/2010.11934
"""

from proveout.parser import parse

import torch
from transformers import MT5Config, MT5ForConditionalGeneration

PUBLISHED = dict(
    vocab_size=250112,
    d_model=512,
    d_kv=64,
    d_ff=1024,
    num_layers=8,
    num_decoder_layers=8,
    num_heads=6,
    feed_forward_proj="gated-gelu",
    tie_word_embeddings=False,
)
SMALL = dict(
    vocab_size=1000,
    d_model=128,
    d_kv=32,
    d_ff=256,
    num_layers=2,
    num_decoder_layers=2,
    num_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = MT5Config(**PUBLISHED | (SMALL if args.small else {}))
model = MT5ForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
