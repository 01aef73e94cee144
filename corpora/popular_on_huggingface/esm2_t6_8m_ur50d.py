# labels: name::facebook/esm2_t6_8M_UR50D author::facebook task::fill-mask domain::biology license::mit
"""ESM-2, 8M: proteins.

https://huggingface.co/facebook/esm2_t6_8M_UR50D; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/esm2_t6_8M_UR50D", args)

with torch.no_grad():
    model(**inputs)
