# labels: name::sentence-transformers/LaBSE author::sentence-transformers task::sentence-similarity domain::nlp license::apache-2.0
"""LaBSE: sentences of 109 languages in one space.

https://huggingface.co/sentence-transformers/LaBSE; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("sentence-transformers/LaBSE", args)

with torch.no_grad():
    model(**inputs)
