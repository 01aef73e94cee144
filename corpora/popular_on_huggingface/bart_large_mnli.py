# labels: name::bart-large-mnli author::facebook task::zero-shot-classification domain::nlp license::mit
"""BART large for classes it was never shown.

https://huggingface.co/facebook/bart-large-mnli; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/bart-large-mnli", args)

with torch.no_grad():
    model(**inputs)
