# labels: name::xglm author::facebook task::text-generation domain::nlp license::mit
"""XGLM 564M: thirty languages, sinusoidal positions.

Sizes of https://huggingface.co/facebook/xglm-564M; paper https://arxiv.org/abs/2112.10668
"""

from proveout.parser import parse

import torch
from transformers import XGLMConfig, XGLMForCausalLM

PUBLISHED = dict(
    vocab_size=256008,
    max_position_embeddings=2048,
    d_model=1024,
    ffn_dim=4096,
    num_layers=24,
    attention_heads=16,
    scale_embedding=True,
)
SMALL = dict(
    vocab_size=1000,
    max_position_embeddings=64,
    d_model=128,
    ffn_dim=256,
    num_layers=2,
    attention_heads=4,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = XGLMConfig(**PUBLISHED | (SMALL if args.small else {}))
model = XGLMForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
