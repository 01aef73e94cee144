# labels: name::openai-community/gpt2-medium author::openai-community task::text-generation domain::nlp license::mit
"""GPT-2 medium, 355M.

https://huggingface.co/openai-community/gpt2-medium; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("openai-community/gpt2-medium", args)

with torch.no_grad():
    model(**inputs)
