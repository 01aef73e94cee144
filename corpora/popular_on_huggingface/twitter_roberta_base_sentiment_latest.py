# labels: name::cardiffnlp/twitter-roberta-base-sentiment-latest author::cardiffnlp task::text-classification domain::nlp license::cc-by-4.0
"""RoBERTa base for the mood of tweets.

https://huggingface.co/cardiffnlp/twitter-roberta-base-sentiment-latest; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("cardiffnlp/twitter-roberta-base-sentiment-latest", args)

with torch.no_grad():
    model(**inputs)
