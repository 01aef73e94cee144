# labels: name::distilbert/distilroberta-base author::distilbert task::fill-mask domain::nlp license::apache-2.0
"""RoBERTa, six layers, distilled.

https://huggingface.co/distilbert/distilroberta-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("distilbert/distilroberta-base", args)

with torch.no_grad():
    model(**inputs)
