# labels: name::intfloat/multilingual-e5-small author::intfloat task::sentence-similarity domain::nlp license::mit
"""E5 small, multilingual.

https://huggingface.co/intfloat/multilingual-e5-small; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("intfloat/multilingual-e5-small", args)

with torch.no_grad():
    model(**inputs)
