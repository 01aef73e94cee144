# labels: name::google/vit-base-patch16-224-in21k author::google task::image-feature-extraction domain::vision license::apache-2.0
"""ViT base, before any classes.

https://huggingface.co/google/vit-base-patch16-224-in21k; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("google/vit-base-patch16-224-in21k", args)

with torch.no_grad():
    model(**inputs)
