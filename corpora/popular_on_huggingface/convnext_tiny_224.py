# labels: name::facebook/convnext-tiny-224 author::facebook task::image-classification domain::vision license::apache-2.0
"""ConvNeXt tiny.

https://huggingface.co/facebook/convnext-tiny-224; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("facebook/convnext-tiny-224", args)

with torch.no_grad():
    model(**inputs)
