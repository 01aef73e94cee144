# labels: name::hfl/chinese-macbert-base author::hfl task::fill-mask domain::nlp license::apache-2.0
"""MacBERT base, Chinese.

https://huggingface.co/hfl/chinese-macbert-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("hfl/chinese-macbert-base", args)

with torch.no_grad():
    model(**inputs)
