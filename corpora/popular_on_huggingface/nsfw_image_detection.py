# labels: name::Falconsai/nsfw_image_detection author::Falconsai task::image-classification domain::vision license::apache-2.0
"""ViT base that guards against nudity.

https://huggingface.co/Falconsai/nsfw_image_detection; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("Falconsai/nsfw_image_detection", args)

with torch.no_grad():
    model(**inputs)
