# labels: name::facebook/opt-350m author::facebook task::text-generation domain::nlp license::other
"""OPT 350M: embeddings half as wide, norms after each block.

https://huggingface.co/facebook/opt-350m; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/opt-350m", args)

with torch.no_grad():
    model(**inputs)
