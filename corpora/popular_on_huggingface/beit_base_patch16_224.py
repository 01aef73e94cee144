# labels: name::microsoft/beit-base-patch16-224 author::microsoft task::image-classification domain::vision license::apache-2.0
"""BEiT base.

https://huggingface.co/microsoft/beit-base-patch16-224; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("microsoft/beit-base-patch16-224", args)

with torch.no_grad():
    model(**inputs)
