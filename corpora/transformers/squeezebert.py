# labels: name::squeezebert author::squeezebert task::fill-mask domain::nlp license::bsd
"""SqueezeBERT: BERT's linear layers as grouped convolutions.

Sizes of https://huggingface.co/squeezebert/squeezebert-uncased; paper https://arxiv.org/abs/2006.11316
"""

from proveout.parser import parse

import torch
from transformers import SqueezeBertConfig, SqueezeBertForMaskedLM

PUBLISHED = dict(
    vocab_size=30522,
    embedding_size=768,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    q_groups=4,
    k_groups=4,
    v_groups=4,
    post_attention_groups=1,
    intermediate_groups=4,
    output_groups=4,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    embedding_size=128,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = SqueezeBertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = SqueezeBertForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
