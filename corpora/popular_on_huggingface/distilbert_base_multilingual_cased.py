# labels: name::distilbert/distilbert-base-multilingual-cased author::distilbert task::fill-mask domain::nlp license::apache-2.0
"""DistilBERT, 104 languages.

https://huggingface.co/distilbert/distilbert-base-multilingual-cased; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("distilbert/distilbert-base-multilingual-cased", args)

with torch.no_grad():
    model(**inputs)
