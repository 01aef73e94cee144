# labels: name::textattack/albert-base-v2-imdb author::textattack task::text-classification domain::nlp license::unstated
"""ALBERT base on film reviews.

https://huggingface.co/textattack/albert-base-v2-imdb; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("textattack/albert-base-v2-imdb", args)

with torch.no_grad():
    model(**inputs)
