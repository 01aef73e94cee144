# labels: name::emilyalsentzer/Bio_ClinicalBERT author::emilyalsentzer task::fill-mask domain::nlp license::mit
"""BERT base for clinical notes.

https://huggingface.co/emilyalsentzer/Bio_ClinicalBERT; `--weights pretrained` loads it.
"""

from proveout.parser import parse

import torch
from _build import build

args = parse(["batch_size", "max_seq_length"])
model, inputs = build("emilyalsentzer/Bio_ClinicalBERT", args)

with torch.no_grad():
    model(**inputs)
