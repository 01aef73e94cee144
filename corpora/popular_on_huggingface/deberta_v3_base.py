# labels: name::microsoft/deberta-v3-base author::microsoft task::fill-mask domain::nlp license::mit
"""DeBERTa v3 base.

https://huggingface.co/microsoft/deberta-v3-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("microsoft/deberta-v3-base", args)

with torch.no_grad():
    model(**inputs)
