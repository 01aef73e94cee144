# labels: name::microsoft/phi-1_5 author::microsoft task::text-generation domain::nlp license::mit
"""Phi-1.5, 1.4B.

https://huggingface.co/microsoft/phi-1_5; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("microsoft/phi-1_5", args)

with torch.no_grad():
    model(**inputs)
