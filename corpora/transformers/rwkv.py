# labels: name::rwkv author::rwkv task::text-generation domain::nlp license::apache-2.0
"""RWKV-4 169M: a recurrent network trained like a transformer.

Sizes of https://huggingface.co/RWKV/rwkv-4-169m-pile; paper https://arxiv.org/abs/2305.13048
"""

from proveout.parser import parse

import torch
from transformers import RwkvConfig, RwkvForCausalLM

PUBLISHED = dict(
    vocab_size=50277,
    context_length=1024,
    hidden_size=768,
    attention_hidden_size=768,
    num_hidden_layers=12,
    intermediate_size=3072,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=64,
    attention_hidden_size=64,
    num_hidden_layers=2,
    intermediate_size=128,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = RwkvConfig(**PUBLISHED | (SMALL if args.small else {}))
model = RwkvForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
