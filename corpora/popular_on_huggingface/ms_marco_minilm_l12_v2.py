# labels: name::cross-encoder/ms-marco-MiniLM-L12-v2 author::cross-encoder task::text-ranking domain::nlp license::apache-2.0
"""MiniLM, twelve layers: ranks passages for a query.

https://huggingface.co/cross-encoder/ms-marco-MiniLM-L12-v2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("cross-encoder/ms-marco-MiniLM-L12-v2", args)

with torch.no_grad():
    model(**inputs)
