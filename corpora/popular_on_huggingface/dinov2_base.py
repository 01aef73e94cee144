# labels: name::facebook/dinov2-base author::facebook task::image-feature-extraction domain::vision license::apache-2.0
"""DINOv2 base.

https://huggingface.co/facebook/dinov2-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("facebook/dinov2-base", args)

with torch.no_grad():
    model(**inputs)
