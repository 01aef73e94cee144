# labels: name::MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli author::MoritzLaurer task::zero-shot-classification domain::nlp license::mit
"""DeBERTa v3 base for classes it was never shown.

https://huggingface.co/MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli", args)

with torch.no_grad():
    model(**inputs)
