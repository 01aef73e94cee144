# labels: name::phi_4 author::microsoft task::text-generation domain::nlp license::mit
"""Phi-4: 14 billion parameters, four query heads to a key head. 59 GB in float32.

Sizes of https://huggingface.co/microsoft/phi-4; paper https://arxiv.org/abs/2412.08905
Plan it without its weights: proveout generate llm/phi_4 --dry-run
"""

from proveout.parser import parse

import torch
from transformers import Phi3Config, Phi3ForCausalLM

PUBLISHED = dict(
    vocab_size=100352,
    hidden_size=5120,
    num_hidden_layers=40,
    num_attention_heads=40,
    intermediate_size=17920,
    num_key_value_heads=10,
    max_position_embeddings=16384,
    rms_norm_eps=1e-05,
    sliding_window=None,
    rope_parameters={"rope_type": "default", "rope_theta": 250000.0},
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=2,
    pad_token_id=0,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Phi3Config(**PUBLISHED | (SMALL if args.small else {}))
model = Phi3ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
