# labels: name::FacebookAI/roberta-large-mnli author::FacebookAI task::text-classification domain::nlp license::mit
"""RoBERTa large on MNLI: does one sentence follow from another.

https://huggingface.co/FacebookAI/roberta-large-mnli; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("FacebookAI/roberta-large-mnli", args)

with torch.no_grad():
    model(**inputs)
