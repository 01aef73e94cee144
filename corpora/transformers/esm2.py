# labels: name::esm2 author::facebook task::fill-mask domain::biology license::mit
"""ESM-2, 35M: a language model of proteins, whose tokens are amino acids.

Sizes of https://huggingface.co/facebook/esm2_t12_35M_UR50D; https://doi.org/10.1126/science.ade2574
"""

from proveout.parser import parse

import torch
from transformers import EsmConfig, EsmForMaskedLM

PUBLISHED = dict(
    vocab_size=33,
    hidden_size=480,
    num_hidden_layers=12,
    num_attention_heads=20,
    intermediate_size=1920,
    max_position_embeddings=1026,
    position_embedding_type="rotary",
    token_dropout=True,
    emb_layer_norm_before=False,
    layer_norm_eps=1e-05,
    pad_token_id=1,
    mask_token_id=32,
)
SMALL = dict(
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = EsmConfig(**PUBLISHED | (SMALL if args.small else {}))
model = EsmForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(4, 24, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
