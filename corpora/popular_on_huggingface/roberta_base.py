# labels: name::FacebookAI/roberta-base author::FacebookAI task::fill-mask domain::nlp license::mit
"""RoBERTa base.

https://huggingface.co/FacebookAI/roberta-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("FacebookAI/roberta-base", args)

with torch.no_grad():
    model(**inputs)
