# labels: name::Qwen/Qwen3-0.6B author::Qwen task::text-generation domain::nlp license::apache-2.0
"""Qwen3 0.6B.

https://huggingface.co/Qwen/Qwen3-0.6B; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("Qwen/Qwen3-0.6B", args)

with torch.no_grad():
    model(**inputs)
