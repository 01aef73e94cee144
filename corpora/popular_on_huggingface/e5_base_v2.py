# labels: name::intfloat/e5-base-v2 author::intfloat task::sentence-similarity domain::nlp license::mit
"""E5 base.

https://huggingface.co/intfloat/e5-base-v2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("intfloat/e5-base-v2", args)

with torch.no_grad():
    model(**inputs)
