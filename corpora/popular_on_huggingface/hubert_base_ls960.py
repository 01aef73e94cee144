# labels: name::facebook/hubert-base-ls960 author::facebook task::feature-extraction domain::audio license::apache-2.0
"""HuBERT base.

https://huggingface.co/facebook/hubert-base-ls960; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_audio_seq_length"])
model, inputs = build("facebook/hubert-base-ls960", args)

with torch.no_grad():
    model(**inputs)
