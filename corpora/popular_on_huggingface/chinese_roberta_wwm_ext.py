# labels: name::hfl/chinese-roberta-wwm-ext author::hfl task::fill-mask domain::nlp license::apache-2.0
"""BERT base with whole-word masking, Chinese.

https://huggingface.co/hfl/chinese-roberta-wwm-ext; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("hfl/chinese-roberta-wwm-ext", args)

with torch.no_grad():
    model(**inputs)
