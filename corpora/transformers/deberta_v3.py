# labels: name::deberta_v3 author::microsoft task::fill-mask domain::nlp license::mit
"""DeBERTa v3 base: relative positions in logarithmic buckets, projections shared with the content's.

Sizes of https://huggingface.co/microsoft/deberta-v3-base; paper https://arxiv.org/abs/2111.09543
"""

from proveout.parser import parse

import torch
from transformers import DebertaV2Config, DebertaV2ForMaskedLM

PUBLISHED = dict(
    vocab_size=128100,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    type_vocab_size=0,
    relative_attention=True,
    max_relative_positions=-1,
    position_buckets=256,
    norm_rel_ebd="layer_norm",
    share_att_key=True,
    position_biased_input=False,
    pos_att_type=["p2c", "c2p"],
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    position_buckets=16,
    max_position_embeddings=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = DebertaV2Config(**PUBLISHED | (SMALL if args.small else {}))
model = DebertaV2ForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
