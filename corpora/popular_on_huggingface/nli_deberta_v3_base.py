# labels: name::cross-encoder/nli-deberta-v3-base author::cross-encoder task::zero-shot-classification domain::nlp license::apache-2.0
"""DeBERTa v3 base on SNLI and MNLI.

https://huggingface.co/cross-encoder/nli-deberta-v3-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("cross-encoder/nli-deberta-v3-base", args)

with torch.no_grad():
    model(**inputs)
