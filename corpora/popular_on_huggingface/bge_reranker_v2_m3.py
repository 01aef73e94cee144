# labels: name::BAAI/bge-reranker-v2-m3 author::BAAI task::text-ranking domain::nlp license::apache-2.0
"""BGE's multilingual ranker.

https://huggingface.co/BAAI/bge-reranker-v2-m3; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("BAAI/bge-reranker-v2-m3", args)

with torch.no_grad():
    model(**inputs)
