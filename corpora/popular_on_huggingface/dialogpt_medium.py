# labels: name::DialoGPT-medium author::microsoft task::text-generation domain::nlp license::mit
"""GPT-2 medium that chats.

https://huggingface.co/microsoft/DialoGPT-medium; `--weights pretrained` loads it.
"""

import torch
from _build import build

from proveout.parser import parse

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("microsoft/DialoGPT-medium", args)

with torch.no_grad():
    model(**inputs)
