# labels: name::facebook/opt-1.3b author::facebook task::text-generation domain::nlp license::other
"""OPT 1.3B.

https://huggingface.co/facebook/opt-1.3b; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/opt-1.3b", args)

with torch.no_grad():
    model(**inputs)
