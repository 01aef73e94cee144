# labels: name::hustvl/yolos-tiny author::hustvl task::object-detection domain::vision license::apache-2.0
"""YOLOS tiny: objects of COCO.

https://huggingface.co/hustvl/yolos-tiny; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("hustvl/yolos-tiny", args)

with torch.no_grad():
    model(**inputs)
