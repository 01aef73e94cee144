# labels: name::openai/whisper-base author::openai task::automatic-speech-recognition domain::audio license::apache-2.0
"""Whisper base, 74M.

https://huggingface.co/openai/whisper-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("openai/whisper-base", args)

with torch.no_grad():
    model(**inputs)
