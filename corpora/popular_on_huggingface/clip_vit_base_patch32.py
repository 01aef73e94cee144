# labels: name::openai/clip-vit-base-patch32 author::openai task::zero-shot-image-classification domain::multimodal license::unstated
"""CLIP, ViT-B/32.

https://huggingface.co/openai/clip-vit-base-patch32; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("openai/clip-vit-base-patch32", args)

with torch.no_grad():
    model(**inputs)
