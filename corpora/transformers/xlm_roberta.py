# labels: name::xlm_roberta author::facebook task::fill-mask domain::nlp license::mit
"""XLM-RoBERTa base: RoBERTa in a hundred languages, with a vocabulary to match.

Sizes of https://huggingface.co/FacebookAI/xlm-roberta-base; paper https://arxiv.org/abs/1911.02116
"""

from proveout.parser import parse, smaller

import torch
from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

PUBLISHED = dict(
    vocab_size=250002,
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

config = XLMRobertaConfig(**PUBLISHED | (SMALL if args.small else {}))
model = XLMRobertaForMaskedLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
