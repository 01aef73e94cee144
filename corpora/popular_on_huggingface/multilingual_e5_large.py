# labels: name::intfloat/multilingual-e5-large author::intfloat task::sentence-similarity domain::nlp license::mit
"""E5 large, multilingual.

https://huggingface.co/intfloat/multilingual-e5-large; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("intfloat/multilingual-e5-large", args)

with torch.no_grad():
    model(**inputs)
