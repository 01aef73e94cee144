# labels: name::roberta-base author::FacebookAI task::fill-mask domain::nlp license::mit
"""RoBERTa base.

https://huggingface.co/FacebookAI/roberta-base; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("FacebookAI/roberta-base", args)

with torch.no_grad():
    model(**inputs)
