# labels: name::deberta author::microsoft task::fill-mask domain::nlp license::mit
"""DeBERTa base: attention over content and relative position, kept apart.

Sizes of https://huggingface.co/microsoft/deberta-base; paper https://arxiv.org/abs/2006.03654
"""

from proveout.parser import parse

import torch
from transformers import DebertaConfig, DebertaForMaskedLM

PUBLISHED = dict(
    vocab_size=50265,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    type_vocab_size=0,
    relative_attention=True,
    max_relative_positions=-1,
    position_biased_input=False,
    pos_att_type=["c2p", "p2c"],
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = DebertaConfig(**PUBLISHED | (SMALL if args.small else {}))
model = DebertaForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
