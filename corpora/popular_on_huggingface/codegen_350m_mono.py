# labels: name::Salesforce/codegen-350M-mono author::Salesforce task::text-generation domain::nlp license::bsd-3-clause
"""CodeGen 350M: writes Python.

https://huggingface.co/Salesforce/codegen-350M-mono; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("Salesforce/codegen-350M-mono", args)

with torch.no_grad():
    model(**inputs)
