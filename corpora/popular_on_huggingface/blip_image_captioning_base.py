# labels: name::Salesforce/blip-image-captioning-base author::Salesforce task::image-to-text domain::multimodal license::bsd-3-clause
"""BLIP base: captions.

https://huggingface.co/Salesforce/blip-image-captioning-base; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("Salesforce/blip-image-captioning-base", args)

with torch.no_grad():
    model(**inputs)
