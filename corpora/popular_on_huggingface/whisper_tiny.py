# labels: name::openai/whisper-tiny author::openai task::automatic-speech-recognition domain::audio license::apache-2.0
"""Whisper tiny, 39M.

https://huggingface.co/openai/whisper-tiny; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("openai/whisper-tiny", args)

with torch.no_grad():
    model(**inputs)
