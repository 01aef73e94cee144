# labels: name::thenlper/gte-large author::thenlper task::sentence-similarity domain::nlp license::mit
"""GTE large.

https://huggingface.co/thenlper/gte-large; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("thenlper/gte-large", args)

with torch.no_grad():
    model(**inputs)
