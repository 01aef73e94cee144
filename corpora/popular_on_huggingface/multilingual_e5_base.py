# labels: name::intfloat/multilingual-e5-base author::intfloat task::sentence-similarity domain::nlp license::mit
"""E5 base, multilingual.

https://huggingface.co/intfloat/multilingual-e5-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("intfloat/multilingual-e5-base", args)

with torch.no_grad():
    model(**inputs)
