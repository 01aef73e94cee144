# labels: name::Salesforce/codegen-350M-multi author::Salesforce task::text-generation domain::nlp license::bsd-3-clause
"""CodeGen 350M: writes six languages.

https://huggingface.co/Salesforce/codegen-350M-multi; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("Salesforce/codegen-350M-multi", args)

with torch.no_grad():
    model(**inputs)
