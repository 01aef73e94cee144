# labels: name::SamLowe/roberta-base-go_emotions author::SamLowe task::text-classification domain::nlp license::mit
"""RoBERTa base for 28 emotions.

https://huggingface.co/SamLowe/roberta-base-go_emotions; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("SamLowe/roberta-base-go_emotions", args)

with torch.no_grad():
    model(**inputs)
