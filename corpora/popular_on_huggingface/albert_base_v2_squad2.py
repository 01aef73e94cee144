# labels: name::twmkn9/albert-base-v2-squad2 author::twmkn9 task::question-answering domain::nlp license::unstated
"""ALBERT base on SQuAD 2.

https://huggingface.co/twmkn9/albert-base-v2-squad2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("twmkn9/albert-base-v2-squad2", args)

with torch.no_grad():
    model(**inputs)
