# labels: name::MIT/ast-finetuned-audioset-10-10-0.4593 author::MIT task::audio-classification domain::audio license::bsd-3-clause
"""AST: 527 kinds of sound.

https://huggingface.co/MIT/ast-finetuned-audioset-10-10-0.4593; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size"])
model, inputs = build("MIT/ast-finetuned-audioset-10-10-0.4593", args)

with torch.no_grad():
    model(**inputs)
