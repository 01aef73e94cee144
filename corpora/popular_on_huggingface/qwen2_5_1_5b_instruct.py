# labels: name::Qwen/Qwen2.5-1.5B-Instruct author::Qwen task::text-generation domain::nlp license::apache-2.0
"""Qwen2.5 1.5B.

https://huggingface.co/Qwen/Qwen2.5-1.5B-Instruct; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("Qwen/Qwen2.5-1.5B-Instruct", args)

with torch.no_grad():
    model(**inputs)
