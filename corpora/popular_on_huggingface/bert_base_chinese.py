# labels: name::google-bert/bert-base-chinese author::google-bert task::fill-mask domain::nlp license::apache-2.0
"""BERT base, Chinese.

https://huggingface.co/google-bert/bert-base-chinese; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google-bert/bert-base-chinese", args)

with torch.no_grad():
    model(**inputs)
