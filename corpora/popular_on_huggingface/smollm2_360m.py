# labels: name::HuggingFaceTB/SmolLM2-360M author::HuggingFaceTB task::text-generation domain::nlp license::apache-2.0
"""SmolLM2 360M.

https://huggingface.co/HuggingFaceTB/SmolLM2-360M; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("HuggingFaceTB/SmolLM2-360M", args)

with torch.no_grad():
    model(**inputs)
