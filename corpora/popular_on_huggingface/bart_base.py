# labels: name::facebook/bart-base author::facebook task::feature-extraction domain::nlp license::apache-2.0
"""BART base.

https://huggingface.co/facebook/bart-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/bart-base", args)

with torch.no_grad():
    model(**inputs)
