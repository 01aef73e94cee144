# labels: name::longt5 author::google task::summarization domain::nlp license::apache-2.0
"""LongT5 base: T5 whose encoder attends locally, 127 tokens to each side.

Sizes of https://huggingface.co/google/long-t5-local-base; paper https://arxiv.org/abs/2112.07916
"""

from proveout.parser import parse

import torch
from transformers import LongT5Config, LongT5ForConditionalGeneration

PUBLISHED = dict(
    vocab_size=32128,
    d_model=768,
    d_kv=64,
    d_ff=2048,
    num_layers=12,
    num_decoder_layers=12,
    num_heads=12,
    local_radius=127,
    encoder_attention_type="local",
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
    local_radius=7,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = LongT5Config(**PUBLISHED | (SMALL if args.small else {}))
model = LongT5ForConditionalGeneration(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "decoder_input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
