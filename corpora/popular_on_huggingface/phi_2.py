# labels: name::microsoft/phi-2 author::microsoft task::text-generation domain::nlp license::mit
"""Phi-2, 2.8B.

https://huggingface.co/microsoft/phi-2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("microsoft/phi-2", args)

with torch.no_grad():
    model(**inputs)
