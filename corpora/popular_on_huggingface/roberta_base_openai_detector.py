# labels: name::openai-community/roberta-base-openai-detector author::openai-community task::text-classification domain::nlp license::mit
"""RoBERTa base that detects GPT-2's output.

https://huggingface.co/openai-community/roberta-base-openai-detector; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("openai-community/roberta-base-openai-detector", args)

with torch.no_grad():
    model(**inputs)
