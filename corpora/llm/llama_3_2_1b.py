# labels: name::llama_3_2_1b author::meta task::text-generation domain::nlp license::llama3.2
"""Llama 3.2 1B: the smallest of its family, embeddings shared with the head.

Sizes of https://huggingface.co/meta-llama/Llama-3.2-1B; paper https://arxiv.org/abs/2407.21783
Plan it without its weights: proveout generate llm/llama_3_2_1b --dry-run
"""

from proveout.parser import parse, smaller

import torch
from transformers import LlamaConfig, LlamaForCausalLM

PUBLISHED = dict(
    vocab_size=128256,
    hidden_size=2048,
    num_hidden_layers=16,
    num_attention_heads=32,
    intermediate_size=8192,
    num_key_value_heads=8,
    head_dim=64,
    max_position_embeddings=131072,
    rms_norm_eps=1e-05,
    rope_parameters={
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
    },
    tie_word_embeddings=True,
)
SMALL = smaller(PUBLISHED)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = LlamaConfig(**PUBLISHED | (SMALL if args.small else {}))
model = LlamaForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
