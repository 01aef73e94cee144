# labels: name::BAAI/bge-reranker-base author::BAAI task::text-ranking domain::nlp license::mit
"""BGE's base ranker.

https://huggingface.co/BAAI/bge-reranker-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("BAAI/bge-reranker-base", args)

with torch.no_grad():
    model(**inputs)
