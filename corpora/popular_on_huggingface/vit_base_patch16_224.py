# labels: name::google/vit-base-patch16-224 author::google task::image-classification domain::vision license::apache-2.0
"""ViT base.

https://huggingface.co/google/vit-base-patch16-224; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("google/vit-base-patch16-224", args)

with torch.no_grad():
    model(**inputs)
