# labels: name::sshleifer/distilbart-cnn-12-6 author::sshleifer task::summarization domain::nlp license::apache-2.0
"""BART large with half of its decoder.

https://huggingface.co/sshleifer/distilbart-cnn-12-6; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("sshleifer/distilbart-cnn-12-6", args)

with torch.no_grad():
    model(**inputs)
