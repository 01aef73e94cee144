# labels: name::google/electra-small-discriminator author::google task::feature-extraction domain::nlp license::apache-2.0
"""ELECTRA small: which words were replaced.

https://huggingface.co/google/electra-small-discriminator; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google/electra-small-discriminator", args)

with torch.no_grad():
    model(**inputs)
