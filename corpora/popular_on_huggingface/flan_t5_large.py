# labels: name::google/flan-t5-large author::google task::text-generation domain::nlp license::apache-2.0
"""FLAN-T5 large: follows instructions.

https://huggingface.co/google/flan-t5-large; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google/flan-t5-large", args)

with torch.no_grad():
    model(**inputs)
