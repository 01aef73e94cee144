# labels: name::distilbert/distilbert-base-uncased-finetuned-sst-2-english author::distilbert task::text-classification domain::nlp license::apache-2.0
"""DistilBERT that tells praise from blame, SST-2.

https://huggingface.co/distilbert/distilbert-base-uncased-finetuned-sst-2-english; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("distilbert/distilbert-base-uncased-finetuned-sst-2-english", args)

with torch.no_grad():
    model(**inputs)
