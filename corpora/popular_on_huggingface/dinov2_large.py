# labels: name::facebook/dinov2-large author::facebook task::image-feature-extraction domain::vision license::apache-2.0
"""DINOv2 large.

https://huggingface.co/facebook/dinov2-large; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("facebook/dinov2-large", args)

with torch.no_grad():
    model(**inputs)
