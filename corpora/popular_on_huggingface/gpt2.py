# labels: name::openai-community/gpt2 author::openai-community task::text-generation domain::nlp license::mit
"""GPT-2, 124M.

https://huggingface.co/openai-community/gpt2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("openai-community/gpt2", args)

with torch.no_grad():
    model(**inputs)
