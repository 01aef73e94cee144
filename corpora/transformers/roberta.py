# labels: name::roberta author::facebook task::fill-mask domain::nlp license::mit
"""RoBERTa base: BERT's architecture with byte-level BPE and positions counted from the padding token.

Sizes of https://huggingface.co/FacebookAI/roberta-base; paper https://arxiv.org/abs/1907.11692
"""

from proveout.parser import parse

import torch
from transformers import RobertaConfig, RobertaForMaskedLM

PUBLISHED = dict(
    vocab_size=50265,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=514,
    type_vocab_size=1,
    layer_norm_eps=1e-05,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = RobertaConfig(**PUBLISHED | (SMALL if args.small else {}))
model = RobertaForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
