# labels: name::sentence-transformers/all-distilroberta-v1 author::sentence-transformers task::sentence-similarity domain::nlp license::apache-2.0
"""RoBERTa, six layers: sentence embeddings.

https://huggingface.co/sentence-transformers/all-distilroberta-v1; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("sentence-transformers/all-distilroberta-v1", args)

with torch.no_grad():
    model(**inputs)
