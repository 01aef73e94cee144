# labels: name::facebook/bart-large-cnn author::facebook task::summarization domain::nlp license::mit
"""BART large: summaries of news.

https://huggingface.co/facebook/bart-large-cnn; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("facebook/bart-large-cnn", args)

with torch.no_grad():
    model(**inputs)
