# labels: name::EleutherAI/gpt-neo-125m author::EleutherAI task::text-generation domain::nlp license::mit
"""GPT-Neo 125M.

https://huggingface.co/EleutherAI/gpt-neo-125m; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("EleutherAI/gpt-neo-125m", args)

with torch.no_grad():
    model(**inputs)
