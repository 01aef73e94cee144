# labels: name::FacebookAI/roberta-large author::FacebookAI task::fill-mask domain::nlp license::mit
"""RoBERTa large.

https://huggingface.co/FacebookAI/roberta-large; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("FacebookAI/roberta-large", args)

with torch.no_grad():
    model(**inputs)
