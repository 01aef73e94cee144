# labels: name::TinyLlama/TinyLlama-1.1B-Chat-v1.0 author::TinyLlama task::text-generation domain::nlp license::apache-2.0
"""TinyLlama 1.1B.

https://huggingface.co/TinyLlama/TinyLlama-1.1B-Chat-v1.0; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("TinyLlama/TinyLlama-1.1B-Chat-v1.0", args)

with torch.no_grad():
    model(**inputs)
