# labels: name::distilbert/distilgpt2 author::distilbert task::text-generation domain::nlp license::apache-2.0
"""GPT-2, six layers, distilled.

https://huggingface.co/distilbert/distilgpt2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("distilbert/distilgpt2", args)

with torch.no_grad():
    model(**inputs)
