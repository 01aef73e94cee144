# labels: name::thenlper/gte-small author::thenlper task::sentence-similarity domain::nlp license::mit
"""GTE small.

https://huggingface.co/thenlper/gte-small; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("thenlper/gte-small", args)

with torch.no_grad():
    model(**inputs)
