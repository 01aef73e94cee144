# labels: name::openai/clip-vit-base-patch16 author::openai task::zero-shot-image-classification domain::multimodal license::unstated
"""CLIP, ViT-B/16.

https://huggingface.co/openai/clip-vit-base-patch16; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("openai/clip-vit-base-patch16", args)

with torch.no_grad():
    model(**inputs)
