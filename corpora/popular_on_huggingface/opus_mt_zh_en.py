# labels: name::Helsinki-NLP/opus-mt-zh-en author::Helsinki-NLP task::translation domain::nlp license::cc-by-4.0
"""OPUS-MT, Chinese to English.

https://huggingface.co/Helsinki-NLP/opus-mt-zh-en; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("Helsinki-NLP/opus-mt-zh-en", args)

with torch.no_grad():
    model(**inputs)
