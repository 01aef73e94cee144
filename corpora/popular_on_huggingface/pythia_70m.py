# labels: name::EleutherAI/pythia-70m author::EleutherAI task::text-generation domain::nlp license::apache-2.0
"""Pythia 70M.

https://huggingface.co/EleutherAI/pythia-70m; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("EleutherAI/pythia-70m", args)

with torch.no_grad():
    model(**inputs)
