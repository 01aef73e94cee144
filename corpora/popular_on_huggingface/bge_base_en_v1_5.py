# labels: name::BAAI/bge-base-en-v1.5 author::BAAI task::feature-extraction domain::nlp license::mit
"""BGE base: embeddings for retrieval.

https://huggingface.co/BAAI/bge-base-en-v1.5; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("BAAI/bge-base-en-v1.5", args)

with torch.no_grad():
    model(**inputs)
