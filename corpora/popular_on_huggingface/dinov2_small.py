# labels: name::facebook/dinov2-small author::facebook task::image-feature-extraction domain::vision license::apache-2.0
"""DINOv2 small.

https://huggingface.co/facebook/dinov2-small; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("facebook/dinov2-small", args)

with torch.no_grad():
    model(**inputs)
