# labels: name::facebook/bart-large-mnli author::facebook task::zero-shot-classification domain::nlp license::mit
"""BART large for classes it was never shown.

https://huggingface.co/facebook/bart-large-mnli; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/bart-large-mnli", args)

with torch.no_grad():
    model(**inputs)
