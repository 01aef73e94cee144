# labels: name::openai_gpt author::openai task::text-generation domain::nlp license::mit
"""GPT, the first: a decoder with learned positions and layer normalisation after each block.

Sizes of https://huggingface.co/openai-community/openai-gpt; https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf
"""

from proveout.parser import parse

import torch
from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

PUBLISHED = dict(
    vocab_size=40478,
    n_positions=512,
    n_embd=768,
    n_layer=12,
    n_head=12,
)
SMALL = dict(
    vocab_size=1000,
    n_embd=128,
    n_layer=2,
    n_head=4,
    n_positions=64,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = OpenAIGPTConfig(**PUBLISHED | (SMALL if args.small else {}))
model = OpenAIGPTLMHeadModel(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
