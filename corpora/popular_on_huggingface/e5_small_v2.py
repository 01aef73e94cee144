# labels: name::e5-small-v2 author::intfloat task::sentence-similarity domain::nlp license::mit
"""E5 small.

https://huggingface.co/intfloat/e5-small-v2; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("intfloat/e5-small-v2", args)

with torch.no_grad():
    model(**inputs)
