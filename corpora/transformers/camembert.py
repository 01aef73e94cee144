# labels: name::camembert author::almanach task::fill-mask domain::nlp license::mit
"""CamemBERT base: RoBERTa for French.

Sizes of https://huggingface.co/almanach/camembert-base; paper https://arxiv.org/abs/1911.03894
"""

from proveout.parser import parse, smaller

import torch
from transformers import CamembertConfig, CamembertForMaskedLM

PUBLISHED = dict(
    vocab_size=32005,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    max_position_embeddings=514,
    type_vocab_size=1,
    layer_norm_eps=1e-05,
)
SMALL = smaller(PUBLISHED)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = CamembertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = CamembertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
