# labels: name::google-bert/bert-large-cased author::google-bert task::fill-mask domain::nlp license::apache-2.0
"""BERT large, English.

https://huggingface.co/google-bert/bert-large-cased; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google-bert/bert-large-cased", args)

with torch.no_grad():
    model(**inputs)
