# labels: name::albert_base_v2_squad2 author::twmkn9 task::question-answering domain::nlp license::apache-2.0
"""ALBERT base v2 that answers questions: where in the text the answer starts and ends, SQuAD 2.

Sizes of https://huggingface.co/twmkn9/albert-base-v2-squad2; paper https://arxiv.org/abs/1909.11942
"""

from proveout.parser import parse, smaller

import torch
from transformers import AlbertConfig, AlbertForQuestionAnswering

PUBLISHED = dict(
    vocab_size=30000,
    embedding_size=128,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
)
SMALL = smaller(PUBLISHED)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = AlbertConfig(**PUBLISHED | (SMALL if args.small else {}))
model = AlbertForQuestionAnswering(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
