# labels: name::chinese-macbert-base author::hfl task::fill-mask domain::nlp license::apache-2.0
"""MacBERT base, Chinese.

https://huggingface.co/hfl/chinese-macbert-base; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("hfl/chinese-macbert-base", args)

with torch.no_grad():
    model(**inputs)
