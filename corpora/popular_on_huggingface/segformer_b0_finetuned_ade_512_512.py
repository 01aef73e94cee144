# labels: name::nvidia/segformer-b0-finetuned-ade-512-512 author::nvidia task::image-segmentation domain::vision license::other
"""SegFormer B0: 150 kinds of things.

https://huggingface.co/nvidia/segformer-b0-finetuned-ade-512-512; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("nvidia/segformer-b0-finetuned-ade-512-512", args)

with torch.no_grad():
    model(**inputs)
