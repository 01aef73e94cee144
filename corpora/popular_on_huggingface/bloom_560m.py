# labels: name::bigscience/bloom-560m author::bigscience task::text-generation domain::nlp license::bigscience-bloom-rail-1.0
"""BLOOM 560M.

https://huggingface.co/bigscience/bloom-560m; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("bigscience/bloom-560m", args)

with torch.no_grad():
    model(**inputs)
