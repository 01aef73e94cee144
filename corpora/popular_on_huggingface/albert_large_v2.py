# labels: name::albert/albert-large-v2 author::albert task::fill-mask domain::nlp license::apache-2.0
"""ALBERT large.

https://huggingface.co/albert/albert-large-v2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("albert/albert-large-v2", args)

with torch.no_grad():
    model(**inputs)
