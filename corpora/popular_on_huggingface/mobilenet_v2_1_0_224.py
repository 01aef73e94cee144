# labels: name::google/mobilenet_v2_1.0_224 author::google task::image-classification domain::vision license::other
"""MobileNet v2.

https://huggingface.co/google/mobilenet_v2_1.0_224; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("google/mobilenet_v2_1.0_224", args)

with torch.no_grad():
    model(**inputs)
