# labels: name::microsoft/resnet-50 author::microsoft task::image-classification domain::vision license::apache-2.0
"""ResNet-50.

https://huggingface.co/microsoft/resnet-50; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("microsoft/resnet-50", args)

with torch.no_grad():
    model(**inputs)
