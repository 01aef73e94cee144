# labels: name::tohoku-nlp/bert-base-japanese author::tohoku-nlp task::fill-mask domain::nlp license::cc-by-sa-4.0
"""BERT base, Japanese.

https://huggingface.co/tohoku-nlp/bert-base-japanese; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("tohoku-nlp/bert-base-japanese", args)

with torch.no_grad():
    model(**inputs)
