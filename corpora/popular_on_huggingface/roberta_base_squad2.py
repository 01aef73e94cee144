# labels: name::deepset/roberta-base-squad2 author::deepset task::question-answering domain::nlp license::cc-by-4.0
"""RoBERTa base on SQuAD 2.

https://huggingface.co/deepset/roberta-base-squad2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("deepset/roberta-base-squad2", args)

with torch.no_grad():
    model(**inputs)
