# labels: name::facebook/opt-125m author::facebook task::text-generation domain::nlp license::other
"""OPT 125M.

https://huggingface.co/facebook/opt-125m; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/opt-125m", args)

with torch.no_grad():
    model(**inputs)
