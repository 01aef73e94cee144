# labels: name::dslim/bert-base-NER author::dslim task::token-classification domain::nlp license::mit
"""BERT base that names people, places and organisations.

https://huggingface.co/dslim/bert-base-NER; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("dslim/bert-base-NER", args)

with torch.no_grad():
    model(**inputs)
