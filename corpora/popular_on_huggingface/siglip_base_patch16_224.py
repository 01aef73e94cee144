# labels: name::google/siglip-base-patch16-224 author::google task::zero-shot-image-classification domain::multimodal license::apache-2.0
"""SigLIP base.

https://huggingface.co/google/siglip-base-patch16-224; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("google/siglip-base-patch16-224", args)

with torch.no_grad():
    model(**inputs)
