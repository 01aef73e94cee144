# labels: name::WinKawaks/vit-tiny-patch16-224 author::WinKawaks task::image-classification domain::vision license::apache-2.0
"""ViT tiny.

https://huggingface.co/WinKawaks/vit-tiny-patch16-224; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("WinKawaks/vit-tiny-patch16-224", args)

with torch.no_grad():
    model(**inputs)
