# labels: name::google-t5/t5-base author::google-t5 task::translation domain::nlp license::apache-2.0
"""T5 base.

https://huggingface.co/google-t5/t5-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("google-t5/t5-base", args)

with torch.no_grad():
    model(**inputs)
