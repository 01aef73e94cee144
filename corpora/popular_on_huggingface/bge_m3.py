# labels: name::BAAI/bge-m3 author::BAAI task::sentence-similarity domain::nlp license::mit
"""BGE-M3: embeddings of up to 8192 tokens.

https://huggingface.co/BAAI/bge-m3; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("BAAI/bge-m3", args)

with torch.no_grad():
    model(**inputs)
