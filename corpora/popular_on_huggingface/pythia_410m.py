# labels: name::EleutherAI/pythia-410m author::EleutherAI task::text-generation domain::nlp license::apache-2.0
"""Pythia 410M.

https://huggingface.co/EleutherAI/pythia-410m; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("EleutherAI/pythia-410m", args)

with torch.no_grad():
    model(**inputs)
