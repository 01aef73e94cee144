# labels: name::albert/albert-base-v2 author::albert task::fill-mask domain::nlp license::apache-2.0
"""ALBERT base: one layer's weights, twelve times.

https://huggingface.co/albert/albert-base-v2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("albert/albert-base-v2", args)

with torch.no_grad():
    model(**inputs)
