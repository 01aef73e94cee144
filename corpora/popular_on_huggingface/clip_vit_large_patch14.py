# labels: name::openai/clip-vit-large-patch14 author::openai task::zero-shot-image-classification domain::multimodal license::unstated
"""CLIP, ViT-L/14.

https://huggingface.co/openai/clip-vit-large-patch14; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("openai/clip-vit-large-patch14", args)

with torch.no_grad():
    model(**inputs)
