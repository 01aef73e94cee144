# labels: name::FacebookAI/xlm-roberta-large author::FacebookAI task::fill-mask domain::nlp license::mit
"""XLM-RoBERTa large.

https://huggingface.co/FacebookAI/xlm-roberta-large; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("FacebookAI/xlm-roberta-large", args)

with torch.no_grad():
    model(**inputs)
