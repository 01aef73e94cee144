# labels: name::google-bert/bert-base-multilingual-uncased author::google-bert task::fill-mask domain::nlp license::apache-2.0
"""BERT base, 102 languages, lower case.

https://huggingface.co/google-bert/bert-base-multilingual-uncased; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google-bert/bert-base-multilingual-uncased", args)

with torch.no_grad():
    model(**inputs)
