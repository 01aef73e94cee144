# labels: name::thenlper/gte-base author::thenlper task::sentence-similarity domain::nlp license::mit
"""GTE base.

https://huggingface.co/thenlper/gte-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("thenlper/gte-base", args)

with torch.no_grad():
    model(**inputs)
