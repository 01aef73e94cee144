# labels: name::facebook/nllb-200-distilled-600M author::facebook task::translation domain::nlp license::cc-by-nc-4.0
"""NLLB-200, 600M: two hundred languages.

https://huggingface.co/facebook/nllb-200-distilled-600M; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/nllb-200-distilled-600M", args)

with torch.no_grad():
    model(**inputs)
