# labels: name::openai/whisper-small author::openai task::automatic-speech-recognition domain::audio license::apache-2.0
"""Whisper small, 244M.

https://huggingface.co/openai/whisper-small; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("openai/whisper-small", args)

with torch.no_grad():
    model(**inputs)
