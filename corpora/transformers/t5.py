# labels: name::t5 author::google task::translation domain::nlp license::apache-2.0
"""T5 small: every task is text to text.

Sizes of https://huggingface.co/google-t5/t5-small; paper https://arxiv.org/abs/1910.10683
"""

from proveout.parser import parse

import torch
from transformers import T5Config, T5ForConditionalGeneration

PUBLISHED = dict(
    vocab_size=32128,
    d_model=512,
    d_kv=64,
    d_ff=2048,
    num_layers=6,
    num_decoder_layers=6,
    num_heads=8,
    feed_forward_proj="relu",
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

config = T5Config(**PUBLISHED | (SMALL if args.small else {}))
model = T5ForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
