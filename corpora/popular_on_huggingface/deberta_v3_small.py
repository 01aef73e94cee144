# labels: name::microsoft/deberta-v3-small author::microsoft task::fill-mask domain::nlp license::mit
"""DeBERTa v3 small.

https://huggingface.co/microsoft/deberta-v3-small; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("microsoft/deberta-v3-small", args)

with torch.no_grad():
    model(**inputs)
