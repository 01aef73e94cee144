# labels: name::microsoft/swin-tiny-patch4-window7-224 author::microsoft task::image-classification domain::vision license::apache-2.0
"""Swin tiny.

https://huggingface.co/microsoft/swin-tiny-patch4-window7-224; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("microsoft/swin-tiny-patch4-window7-224", args)

with torch.no_grad():
    model(**inputs)
