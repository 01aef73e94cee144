# labels: name::roberta-large-mnli author::FacebookAI task::text-classification domain::nlp license::mit
"""RoBERTa large on MNLI: does one sentence follow from another.

https://huggingface.co/FacebookAI/roberta-large-mnli; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("FacebookAI/roberta-large-mnli", args)

with torch.no_grad():
    model(**inputs)
