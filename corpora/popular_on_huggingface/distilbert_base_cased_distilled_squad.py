# labels: name::distilbert/distilbert-base-cased-distilled-squad author::distilbert task::question-answering domain::nlp license::apache-2.0
"""DistilBERT that answers questions, SQuAD.

https://huggingface.co/distilbert/distilbert-base-cased-distilled-squad; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("distilbert/distilbert-base-cased-distilled-squad", args)

with torch.no_grad():
    model(**inputs)
