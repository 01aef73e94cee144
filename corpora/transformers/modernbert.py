# labels: name::modernbert author::answerdotai task::fill-mask domain::nlp license::apache-2.0
"""ModernBERT base: rotary positions, gated feed-forwards, local attention in two layers of three.

Sizes of https://huggingface.co/answerdotai/ModernBERT-base; paper https://arxiv.org/abs/2412.13663
"""

from proveout.parser import parse

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

PUBLISHED = dict(
    vocab_size=50368,
    hidden_size=768,
    num_hidden_layers=22,
    num_attention_heads=12,
    intermediate_size=1152,
    local_attention=128,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=256,
    local_attention=16,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    cls_token_id=1,
    sep_token_id=2,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = ModernBertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = ModernBertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
