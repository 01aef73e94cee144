# labels: name::nlptown/bert-base-multilingual-uncased-sentiment author::nlptown task::text-classification domain::nlp license::mit
"""BERT base that gives reviews one to five stars.

https://huggingface.co/nlptown/bert-base-multilingual-uncased-sentiment; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("nlptown/bert-base-multilingual-uncased-sentiment", args)

with torch.no_grad():
    model(**inputs)
