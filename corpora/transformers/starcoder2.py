# labels: name::starcoder2 author::bigcode task::text-generation domain::nlp license::bigcode-openrail-m
"""StarCoder2 3B: code, two key heads, a sliding window of 4096.

Sizes of https://huggingface.co/bigcode/starcoder2-3b; paper https://arxiv.org/abs/2402.19173
"""

from proveout.parser import parse

import torch
from transformers import Starcoder2Config, Starcoder2ForCausalLM

PUBLISHED = dict(
    vocab_size=49152,
    hidden_size=3072,
    num_hidden_layers=30,
    num_attention_heads=24,
    intermediate_size=12288,
    num_key_value_heads=2,
    max_position_embeddings=16384,
    sliding_window=4096,
    use_bias=True,
    rope_parameters={"rope_type": "default", "rope_theta": 999999.4420358813},
    bos_token_id=0,
    eos_token_id=0,
)
SMALL = dict(
    vocab_size=1000,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    num_key_value_heads=2,
    sliding_window=16,
)

torch.manual_seed(0)

args = parse(["batch_size", "max_seq_length"])
batch_size, max_seq_length = args

config = Starcoder2Config(**PUBLISHED | (SMALL if args.small else {}))
model = Starcoder2ForCausalLM(config).eval()
inputs = {
    "input_ids": torch.randint(3, config.vocab_size, (batch_size, max_seq_length)),
    "attention_mask": torch.ones(batch_size, max_seq_length, dtype=torch.long),
    "use_cache": False,
}

with torch.no_grad():
    model(**inputs)
