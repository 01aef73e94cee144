# labels: name::mixedbread-ai/mxbai-embed-large-v1 author::mixedbread-ai task::feature-extraction domain::nlp license::apache-2.0
"""Mixedbread's large embedding model.

https://huggingface.co/mixedbread-ai/mxbai-embed-large-v1; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("mixedbread-ai/mxbai-embed-large-v1", args)

with torch.no_grad():
    model(**inputs)
