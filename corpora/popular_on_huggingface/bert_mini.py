# labels: name::prajjwal1/bert-mini author::prajjwal1 task::feature-extraction domain::nlp license::mit
"""BERT mini.

https://huggingface.co/prajjwal1/bert-mini; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("prajjwal1/bert-mini", args)

with torch.no_grad():
    model(**inputs)
