# labels: name::microsoft/DialoGPT-medium author::microsoft task::text-generation domain::nlp license::mit
"""GPT-2 medium that chats.

https://huggingface.co/microsoft/DialoGPT-medium; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("microsoft/DialoGPT-medium", args)

with torch.no_grad():
    model(**inputs)
