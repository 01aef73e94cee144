# labels: name::codegen_350m author::salesforce task::text-generation domain::nlp license::bsd-3-clause
"""CodeGen 350M mono: writes Python; rotary positions, attention and feed-forward in parallel.

Sizes of https://huggingface.co/Salesforce/codegen-350M-mono; paper https://arxiv.org/abs/2203.13474
Plan it without its weights: proveout generate llm/codegen_350m --dry-run
"""

from proveout.parser import parse

import torch
from transformers import CodeGenConfig, CodeGenForCausalLM

PUBLISHED = dict(
    vocab_size=51200,
    n_positions=2048,
    n_ctx=2048,
    n_embd=1024,
    n_layer=20,
    n_head=16,
    rotary_dim=32,
)
SMALL = dict(
    vocab_size=1000,
    n_embd=128,
    n_layer=2,
    n_head=4,
    n_positions=256,
    n_ctx=256,
    rotary_dim=16,
    bos_token_id=1,
    eos_token_id=2,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = CodeGenConfig(**PUBLISHED | (SMALL if args.small else {}))
model = CodeGenForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
