# labels: name::google-bert/bert-base-german-cased author::google-bert task::fill-mask domain::nlp license::mit
"""BERT base, German.

https://huggingface.co/google-bert/bert-base-german-cased; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google-bert/bert-base-german-cased", args)

with torch.no_grad():
    model(**inputs)
