# labels: name::sentence-transformers/paraphrase-multilingual-mpnet-base-v2 author::sentence-transformers task::sentence-similarity domain::nlp license::apache-2.0
"""XLM-RoBERTa base taught by MPNet, 50 languages.

https://huggingface.co/sentence-transformers/paraphrase-multilingual-mpnet-base-v2; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("sentence-transformers/paraphrase-multilingual-mpnet-base-v2", args)

with torch.no_grad():
    model(**inputs)
