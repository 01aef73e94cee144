# labels: name::Helsinki-NLP/opus-mt-en-fr author::Helsinki-NLP task::translation domain::nlp license::apache-2.0
"""OPUS-MT, English to French.

https://huggingface.co/Helsinki-NLP/opus-mt-en-fr; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("Helsinki-NLP/opus-mt-en-fr", args)

with torch.no_grad():
    model(**inputs)
