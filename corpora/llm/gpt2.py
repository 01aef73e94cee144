# labels: name::gpt2 author::openai task::text-generation domain::nlp license::mit
"""GPT-2, 124M: learned positions, one product for queries, keys and values.

Sizes of https://huggingface.co/openai-community/gpt2; https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
Plan it without its weights: proveout generate llm/gpt2 --dry-run
"""

from proveout.parser import parse

import torch
from transformers import GPT2Config, GPT2LMHeadModel

PUBLISHED = dict(
    vocab_size=50257,
    n_positions=1024,
    n_embd=768,
    n_layer=12,
    n_head=12,
)
SMALL = dict(
    vocab_size=1000,
    n_embd=128,
    n_layer=2,
    n_head=4,
    n_positions=256,
    bos_token_id=1,
    eos_token_id=2,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = GPT2Config(**PUBLISHED | (SMALL if args.small else {}))
model = GPT2LMHeadModel(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
