# labels: name::microsoft/wavlm-base-plus author::microsoft task::feature-extraction domain::audio license::unstated
"""WavLM base+.

https://huggingface.co/microsoft/wavlm-base-plus; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_audio_seq_length"])
model, inputs = build("microsoft/wavlm-base-plus", args)

with torch.no_grad():
    model(**inputs)
