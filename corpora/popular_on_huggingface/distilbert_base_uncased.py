# labels: name::distilbert/distilbert-base-uncased author::distilbert task::fill-mask domain::nlp license::apache-2.0
"""DistilBERT, lower-case English.

https://huggingface.co/distilbert/distilbert-base-uncased; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("distilbert/distilbert-base-uncased", args)

with torch.no_grad():
    model(**inputs)
