# labels: name::mamba_2_8b author::state-spaces task::text-generation domain::nlp license::apache-2.0
"""Mamba 2.8B: a selective state space in place of attention. 11 GB in float32.

Sizes of https://huggingface.co/state-spaces/mamba-2.8b-hf; paper https://arxiv.org/abs/2312.00752
Plan it without its weights: proveout generate llm/mamba_2_8b --dry-run
"""

from proveout.parser import parse

import torch
from transformers import MambaConfig, MambaForCausalLM

PUBLISHED = dict(
    vocab_size=50280,
    hidden_size=2560,
    state_size=16,
    num_hidden_layers=64,
    expand=2,
    conv_kernel=4,
    time_step_rank=160,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=64,
    state_size=8,
    num_hidden_layers=2,
    time_step_rank=4,
    intermediate_size=128,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = MambaConfig(**PUBLISHED | (SMALL if args.small else {}))
model = MambaForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
